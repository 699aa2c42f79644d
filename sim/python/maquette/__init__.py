# SPDX-License-Identifier: Apache-2.0
"""Maquette in Python: training plans tried on a model of a cluster.

    import maquette as mq
    r = mq.search(model="config.json", gpus="64xH100", software="megatron-core", batch=512, seq=8192)
    r                        # a notebook shows the report
    r.best                   # the best plan: r.best["step_time_s"], r.best["plan"]
    r.to_frame()             # all plans kept (a pandas.DataFrame; rows() where pandas is missing)
    print(r.export("megatron"))

Every command of the program is a function here and takes the program's options as keywords, `-` written `_`; what it
prints with --json comes back as a result that can be read like a dictionary. Nothing is computed in Python: the
installed program runs, and its own words are the text of every exception.
"""
from ._commands import *  # noqa: F401,F403
from ._commands import __all__ as _commands
from ._run import (
    Error, InputError, Interrupted, MissingError, NoPlanError, Plan, ProgramError, Result, Rows, Search, Simulation,
    StoppedError, Study, Tables, Text, ThresholdError, program, version,
)

__all__ = _commands + [
    "Error", "InputError", "Interrupted", "MissingError", "NoPlanError", "Plan", "ProgramError", "Result", "Rows",
    "Search", "Simulation", "StoppedError", "Study", "Tables", "Text", "ThresholdError", "program", "version",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'maquette' has no attribute '{name}'")
