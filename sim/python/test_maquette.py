# SPDX-License-Identifier: Apache-2.0
"""What the package promises, in the environment that it is installed in; MAQUETTE_BUILT is the program of the build."""
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

import maquette as mq

BUILT = os.environ["MAQUETTE_BUILT"]
CONFIG = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=512, num_hidden_layers=4,
              num_attention_heads=8, num_key_value_heads=8, intermediate_size=1408, vocab_size=8000,
              max_position_embeddings=512)
QUESTION = dict(gpus="8xH100", software="megatron-core", batch=32, evals=3, top=2)


def built(*argv):
    return subprocess.run([BUILT, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Maquette(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = mq.search(model=CONFIG, **QUESTION)

    def test_same_as_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config.json"
            config.write_text(json.dumps(CONFIG))
            done = built("search", "-m", str(config), "-p", "8xH100", "--software", "megatron-core", "--batch", "32",
                         "--evals", "3", "--top", "2", "--json", "-o", folder + "/out")
            self.assertEqual(json.loads(done.stdout)["plans"], self.found["plans"])
            path = mq.search(model=config, **QUESTION)
        self.assertEqual(path.rows(), self.found.rows())
        self.assertEqual(mq.search(model=types.SimpleNamespace(to_dict=lambda: CONFIG), **QUESTION).rows(), path.rows())

    def test_result(self):
        best = self.found.best
        self.assertEqual(len(self.found.plans), 2)
        self.assertLessEqual(best["step_time_s"], self.found.plans[1]["step_time_s"])
        self.assertTrue(best.path.exists())
        self.assertEqual(best.simulate()["step_time_s"], best["step_time_s"])
        self.assertIn("<iframe", self.found._repr_html_())
        self.assertIn(best["plan"].split(",")[0], self.found.report())
        self.assertIn("<table", best._repr_html_())

    def test_frame(self):
        if "pandas" not in sys.modules:
            with self.assertRaisesRegex(mq.MissingError, "pandas"):
                self.found.to_frame()
            sys.modules["pandas"] = types.SimpleNamespace(DataFrame=list)
        self.assertEqual(list(self.found.to_frame())[0]["plan"], self.found.best["plan"])
        del sys.modules["pandas"]

    def test_export(self):
        text = self.found.export("megatron")
        self.assertEqual(text, built("export", str(self.found.best.path), "--to", "megatron").stdout)
        self.assertIn("torchrun", text)
        with self.assertRaisesRegex(mq.InputError, "give a number from 1 to 2"):
            self.found.export("megatron", plan=3)
        with self.assertRaisesRegex(mq.InputError, "torchtitan .*; search with --software torchtitan"):
            self.found.export("torchtitan", software="torchtitan")
        with self.assertRaisesRegex(mq.InputError, "--to megatrn: give one of"):
            self.found.export("megatrn")

    def test_errors_are_the_program_s(self):
        for options in (dict(model="lama", gpus="8xH100", batch=8), dict(model="llama", gpus="8xH100"),
                        dict(model=CONFIG, gpus="8xH100", batch=8, fix=dict(tp=16))):
            with self.assertRaises(mq.InputError) as caught:
                mq.search(**options)
            self.assertIsInstance(caught.exception, ValueError)
            self.assertNotIn("\n", str(caught.exception))
        self.assertEqual("maquette search: " + self.message(model="lama", gpus="8xH100", batch=8),
                         built("search", "-m", "lama", "-p", "8xH100", "--batch", "8", "-o", tempfile.mkdtemp()).stderr.strip())
        with self.assertRaisesRegex(mq.NoPlanError, "no feasible plan") as caught:
            mq.search(model="llama:layers=8,hidden=8192,heads=64", gpus="2xT4", batch=8, evals=1)
        self.assertEqual(caught.exception.result["feasible"], 0)
        self.assertRegex(str(caught.exception), r"\nnearest: .* needs .* GB")
        with self.assertRaises(mq.NoPlanError):
            caught.exception.result.best
        with unittest.mock.patch.dict(os.environ, MAQUETTE="/nowhere/maquette"), self.assertRaisesRegex(mq.MissingError, "MAQUETTE="):
            mq.list_("engines")
        own = Path(mq.__file__).parent / "prefix" / "bin"
        with unittest.mock.patch.dict(os.environ, MAQUETTE="maquette", PATH=str(own)):
            self.assertTrue(mq.list_("engines"))
        with self.assertRaises(mq.MissingError):
            mq.calibrate(executor="cuda", output=tempfile.mkdtemp() + "/calib.json")
        with self.assertRaises(TypeError):
            mq.search(modl="llama")
        with self.assertRaisesRegex(mq.InputError, "give a name, a file"):
            mq.search(model=3, gpus="8xH100", batch=8)

    def test_what_is_odd_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "file"
            file.write_text("")
            with self.assertRaisesRegex(mq.InputError, "file: File exists; give a folder"):
                mq.search(model=CONFIG, output=file, **QUESTION)
            table = Path(folder) / "runs.csv"
            table.write_text("row_id,model,gpu,gpus,gbs,seq,step_time_s\na,llama:size=1b,H100,8,64,2048,0.5\n")
            self.assertIn("1 of 1 rows", mq.score(table, check=True))
            table.write_text(table.read_text().replace("0.5", '"0,5"'))
            with self.assertRaisesRegex(mq.InputError, "step_time_s '0,5' is not a number"):
                mq.score(table, check=True)
        with self.assertRaisesRegex(mq.InputError, "'hidden_size' is NaN"):
            mq.search(model=dict(CONFIG, hidden_size=float("nan")), **QUESTION)
        with self.assertRaisesRegex(mq.InputError, "the study is empty"):
            mq.whatif({})
        with self.assertWarnsRegex(UserWarning, "frob is not known: read as a Llama"):
            mq.search(model=dict(CONFIG, model_type="frob", rms_norm_eps=1e-5, hidden_act="silu"), **QUESTION)
        two = mq.whatif({"model": [CONFIG, dict(CONFIG, hidden_size=1024)], "gpus": "8xH100", "batch": 32, "evals": 1})
        self.assertEqual([row["verdict"] for row in two.rows()], ["ok", "ok"])
        self.assertGreater(two.rows()[1]["step_time_s"], two.rows()[0]["step_time_s"])

    @staticmethod
    def message(**options):
        try:
            mq.search(**options)
        except mq.Error as error:
            return str(error)

    def test_every_option_is_a_keyword(self):
        described = json.loads(built("--help", "--json").stdout)["commands"]
        self.assertEqual({name + "_" * (name == "list") for name in described} - {"run"}, set(mq._commands))
        for name, entry in described.items():
            if name == "run":
                continue
            function = getattr(mq, name + "_" * (name == "list"))
            have = {key.rstrip("_") for key in inspect.signature(function).parameters}
            want = {re.split("[.=]", option["name"])[0].lower().replace("-", "_") for option in entry["options"]}
            self.assertEqual(want - {"json"} - have, set(), name)
            for option in (option for option in entry["options"] if option["name"] != "json"):
                words = " ".join(option.get("help", "").split())
                self.assertIn(words, " ".join(function.__doc__.replace("'''", '"""').split()), name)

    def test_other_commands(self):
        study = mq.whatif({"model": CONFIG, "gpus": ["8xH100", "8xH200"], "batch": 32, "evals": 1, "seq": 512})
        self.assertEqual(len(study.rows("whatif")), 2)
        need = mq.recommend(model=CONFIG, gpu="H100, H200", target="tokens/day=1e9", batch=32, seq=512, evals=1)
        self.assertEqual([row["platform.gpu"] for row in need.rows()], ["H100", "H200"])
        self.assertIn("covered", {row["known"] for row in mq.support(model=CONFIG, gpus="8xH100", batch=8)})
        self.assertEqual([row["name"] for row in mq.list_("engines")],
                         [row["name"] for row in json.loads(built("list", "engines", "--json").stdout)])
        self.assertGreater(mq.model(model=CONFIG)["parameters"], 1e7)
        self.assertEqual(len(mq.diff(self.found.plans[0], self.found.plans[1].path)), 2)
        self.assertEqual(mq.platform(["gpu=H100"], gpus=4), mq.platform(["gpu=H100", "gpus=4"]))
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "runs.csv"
            table.write_text("id,model,gpu,gpus,gpus_per_node,gbs,seq,dp,tp,pp,mbs,precision,step_time_s\n"
                             'a,"gpt:layers=4,hidden=512,heads=8",A100-SXM4-80GB,8,8,32,512,8,1,1,4,bf16,.05\n')
            scored = mq.score(table, output=folder + "/scored", executor="analytic")
            self.assertTrue(any(row for row in scored.rows()))

    def test_keyboard(self):
        def stop(*_):
            raise KeyboardInterrupt
        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 1)
        try:
            with self.assertRaises(mq.Interrupted) as caught:
                mq.search(model=CONFIG, gpus="8xH100", batch=32, evals=1000000, seconds=60)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertGreater(len(caught.exception.result.plans), 0)

    def test_nothing_of_the_system_but_glibc(self):
        root = Path(mq.__file__).parent / "prefix"
        loaded = subprocess.run(["ldd", root / "bin" / "maquette"], stdout=subprocess.PIPE, text=True).stdout
        outside = {Path(line.split()[0]).name for line in loaded.splitlines() if str(root) not in line}
        self.assertLessEqual({re.split(r"[-.]", name)[0] for name in outside},
                             {"linux", "libc", "libm", "ld", "libdl", "libpthread", "librt"})


if __name__ == "__main__":
    unittest.main()
