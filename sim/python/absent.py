# SPDX-License-Identifier: Apache-2.0
"""absent.py LIBSIMGRID FOLDER: small libraries in FOLDER in place of ns-3's, which SimGrid links and Maquette never calls.

To load the real ones takes 35 of the 45 ms of a start. A small one has the name and the symbols that SimGrid wants; its
functions say that it is absent and abort, its constructors and destructors do nothing, since SimGrid has objects of
ns-3 that are made when it is loaded. The programs look for libraries in FOLDER first (an RPATH).
"""
import os
import re
import subprocess
import sys
from pathlib import Path

SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|ld-linux.*|libresolv|libutil)\.so\.")


def run(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True).stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries(files):
    """Names and paths of what the files need, and what that needs in turn."""
    lines = run("ldd", *map(str, files))
    return {name: os.path.realpath(path) for name, path in re.findall(r"^\s*(\S+) => (/\S+) ", lines, re.M)}


def needs(file):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", str(file)))


def symbols(file, defined):
    """(name, version, kind, size) of a library's dynamic symbols."""
    for line in run("readelf", "--dyn-syms", "-W", str(file)).splitlines():
        part = line.split()
        if len(part) < 8 or part[0] == "Num:" or (part[6] == "UND") == defined or part[4] not in ("GLOBAL", "WEAK", "UNIQUE"):
            continue
        name, _, version = part[7].partition("@")
        yield name, version.lstrip("@"), part[3], int(part[2], 0)


def absent_library(name, path, wanted, folder):
    """A library of that name with the symbols that others want of it."""
    has = {symbol: (version, kind, size) for symbol, version, kind, size in symbols(path, True)}
    text, versions = [], {}
    for symbol in sorted(set(has) & wanted):
        version, kind, size = has[symbol]
        versions.setdefault(version, []).append(symbol)
        quoted = f'"{symbol}"'
        if kind == "OBJECT":
            text.append(f".data\n.balign 16\n.globl {quoted}\n.type {quoted},@object\n.size {quoted},{max(size, 1)}\n"
                        f"{quoted}: .zero {max(size, 1)}\n")
        else:
            does = "xorl %eax, %eax\n ret" if re.fullmatch(r"_ZN.*[CD][0-3]E.*|.*10StaticInit.*", symbol) else "jmp mq_absent"
            text.append(f".text\n.globl {quoted}\n.type {quoted},@function\n{quoted}: {does}\n")
    source, script, out = folder / f"{name}.s", folder / f"{name}.map", folder / name
    words = f"maquette: {name} is left out: nothing here calls it\\n"
    source.write_text("".join(text) + f'.section .rodata\n1: .ascii "{words}"\n.text\nmq_absent:\n subq $8, %rsp\n movl $2, %edi\n'
                      f" leaq 1b(%rip), %rsi\n movl ${len(words) - 1}, %edx\n call write@PLT\n call abort@PLT\n"
                      '.section .note.GNU-stack,"",@progbits\n')
    script.write_text("".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in versions.items() if version))
    subprocess.run(["gcc", "-shared", "-s", f"-Wl,-soname,{name}", "-o", str(out), str(source)] +
                   ([f"-Wl,--version-script,{script}"] if script.read_text() else []), check=True)
    source.unlink()
    script.unlink()
    return out


def main():
    simgrid, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    every = libraries([simgrid])
    wanted = {name for name, _, _, _ in symbols(simgrid, False)}
    for name in needs(simgrid):
        if name.startswith("libns3-"):
            absent_library(name, every[name], wanted, folder)


if __name__ == "__main__":
    main()
