"""rapt-attention, python -m rapt, and what an import says about RAPT_ISA."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import Array, Random

import rapt
from rapt import _command, _library
from rapt._command import main

Files = tuple[Path, dict[str, Array]]  # their folder, and what they hold


@pytest.fixture
def files(tmp_path: Path, random: Random) -> Files:
    arrays = {name: random.normal(size=(2, 4, 8)).astype(np.float32) for name in "qkv"}
    arrays["sinks"] = np.array([0.5, -1], np.float32)
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path, arrays


def test_the_result_and_its_hash(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    folder, arrays = files
    tensors = [str(folder / f"{x}.npy") for x in "qkv"]
    assert main([*tensors, "-o", str(folder / "out.npy"), "--lse", str(folder / "lse.npy"), "--causal", "--scale", "0.5",
                 "--sinks", str(folder / "sinks.npy")]) == 0  # fmt: skip
    out, lse = rapt.attention(
        *(arrays[x] for x in "qkv"), causal=True, scale=0.5, sinks=arrays["sinks"], return_lse=True
    )
    assert np.array_equal(np.load(folder / "out.npy"), out) and np.array_equal(np.load(folder / "lse.npy"), lse)
    assert capsys.readouterr().out.split()[0] == hashlib.sha256(out.tobytes()).hexdigest()


def test_every_level_prints_the_same_hash(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = files
    tensors = [str(folder / f"{x}.npy") for x in "qkv"]
    try:
        for name, usable in rapt.isas().items():
            if usable:
                assert main([*tensors, "--isa", name, "--threads", "2"]) == 0
    finally:
        rapt.force_isa(None)
    hashes = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert len(hashes) == 1


@pytest.mark.parametrize("change, words", [(["--softcap", "-1"], "softcap"), (["--isa", "avx1024"], "instruction set"),
                                           (["--mask", "absent.npy"], "absent.npy")])  # fmt: skip
def test_errors(files: Files, capsys: pytest.CaptureFixture[str], change: list[str], words: str) -> None:
    folder, _ = files
    assert main([*(str(folder / f"{x}.npy") for x in "qkv"), *change]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--causal", "q", "k", "v"], ["q", "k", "v", "--causal"],
                                   ["--causal", "bottom_right", "q", "k", "v"], ["q", "--causal", "k", "v"],
                                   ["q", "k", "v", "--causal=bottom_right"]])  # fmt: skip
def test_causal_does_not_take_a_file(files: Files, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    folder, arrays = files
    assert main([str(folder / f"{word}.npy") if word in "qkv" else word for word in words]) == 0
    expected = rapt.attention(*(arrays[x] for x in "qkv"), causal=True)
    assert capsys.readouterr().out.split()[0] == hashlib.sha256(expected.tobytes()).hexdigest()


def test_causal_takes_a_mode(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    folder, arrays = files
    q, k, v = (str(folder / f"{x}.npy") for x in "qkv")
    np.save(q, arrays["q"][:, :2])
    assert main(["--causal", "top_left", q, k, v]) == 0
    expected = rapt.attention(arrays["q"][:, :2], arrays["k"], arrays["v"], causal="top_left")
    assert capsys.readouterr().out.split()[0] == hashlib.sha256(expected.tobytes()).hexdigest()


@pytest.mark.parametrize("option", ["--out", "--lse"])
@pytest.mark.parametrize("place, words", [("absent/x.npy", "No such file or directory"), ("a_folder.npy", "directory")])
def test_a_place_that_cannot_be_written_is_known_before_the_work(
    files: Files,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    place: str,
    words: str,
) -> None:
    folder, _ = files
    (folder / "a_folder.npy").mkdir()
    monkeypatch.setattr(_command, "attention", lambda *tensors, **options: pytest.fail("the work was done"))
    assert main([*(str(folder / f"{x}.npy") for x in "qkv"), option, str(folder / place)]) == 1
    message = capsys.readouterr().err
    assert message.startswith("rapt-attention: ") and message.count("\n") == 1
    assert place in message and words in message


def test_a_full_disk(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = files
    (folder / "full.npy").symlink_to("/dev/full")
    np.save(folder / "q.npy", np.zeros((1, 4096, 8), np.float32))  # more than a buffer
    assert main([*(str(folder / f"{x}.npy") for x in "qkk"), "-o", str(folder / "full.npy")]) == 1
    assert capsys.readouterr().err.startswith("rapt-attention: ")


def test_a_failure_leaves_no_file(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = files
    tensors = [str(folder / f"{x}.npy") for x in "qkv"]
    assert main([*tensors, "--softcap", "-1", "-o", str(folder / "out.npy"), "--lse", str(folder / "lse")]) == 1
    assert not (folder / "out.npy").exists() and not (folder / "lse.npy").exists()
    assert main([*tensors, "-o", str(folder / "out"), "--lse", str(folder / "out.npy")]) == 1
    assert "both" in capsys.readouterr().err


BAD_FILES = {
    "empty": b"",
    "text": b"1 2 3\n",
    "archive": b"PK\x03\x04" + bytes(60),
    "cut": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4, 8), }\n",
    "huge": b"\x93NUMPY\x01\x00v\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,), }".ljust(117)
    + b"\n",
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("place", range(3))
def test_a_file_that_is_no_array(files: Files, capsys: pytest.CaptureFixture[str], name: str, place: int) -> None:
    folder, _ = files
    tensors = [str(folder / f"{x}.npy") for x in "qkv"]
    tensors[place] = str(folder / f"{name}.npy")
    (folder / f"{name}.npy").write_bytes(BAD_FILES[name])
    assert main(tensors) == 1
    assert f"{name}.npy" in capsys.readouterr().err


BAD_ARRAYS = [np.array(3.0), np.zeros(4, np.float32), np.zeros((2, 3, 8), np.float32), np.zeros((2, 4, 8), complex),
              np.zeros((2, 4, 8), bool), np.zeros((2, 4, 8), np.int64), np.full((2, 4, 8), "text"),
              np.zeros((2, 4, 8), "V4"), np.zeros((2, 4, 8), "M8[s]"), np.zeros((2, 4, 8), [("a", np.float32)]),
              np.zeros((2, 4, 8), ">f4"), np.zeros((0, 4, 8), np.float64), np.zeros((1,) * 9, np.float32)]  # fmt: skip


@pytest.mark.parametrize("option", ["q", "k", "v", *(f"--{name}" for name in _command._TENSORS)])
@pytest.mark.parametrize("number", range(len(BAD_ARRAYS)))
def test_any_array_gives_a_result_or_a_sentence(
    files: Files, capsys: pytest.CaptureFixture[str], option: str, number: int
) -> None:
    folder, _ = files
    words = {x: str(folder / f"{x}.npy") for x in "qkv"}
    np.save(folder / "bad.npy", BAD_ARRAYS[number])
    if option in words:
        words[option] = str(folder / "bad.npy")
        arguments = list(words.values())
    else:
        arguments = [*words.values(), option, str(folder / "bad.npy")]
    if main(arguments) != 0:
        message = capsys.readouterr().err
        assert message.startswith("rapt-attention: ") and len(message.split()) > 2


@pytest.mark.parametrize("option", [*(f"--{name}" for name in _command._NUMBERS), "--threads"])
@pytest.mark.parametrize("number", ["0", "-1", "-3", "99999999999999999999", "-99999999999999999999", "nan", "inf"])
def test_any_number_gives_a_result_or_a_sentence(
    files: Files, capsys: pytest.CaptureFixture[str], option: str, number: str
) -> None:
    folder, _ = files
    arguments = [*(str(folder / f"{x}.npy") for x in "qkv"), f"{option}={number}"]
    status: Any
    try:
        status = main(arguments)
    except SystemExit as usage:  # argparse: the word is no number of this kind
        status = usage.code
    message = capsys.readouterr().err
    assert status == 0 or (status in (1, 2) and "rapt-attention: " in message)


# What the wheel's rapt-attention does.
ATTENTION = "import sys; from rapt._command import attention_program; sys.exit(attention_program())"


def test_the_program_gives_no_traceback(files: Files) -> None:
    folder, _ = files
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-c", ATTENTION]
    result = subprocess.run(
        [*program, "--causal", "q.npy", "k.npy", "v.npy", "-o", "absent/out.npy"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "rapt-attention: absent/out.npy: No such file or directory\n"


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)


def test_python_m_rapt() -> None:
    result = run_python("-m", "rapt", RAPT_ISA="scalar")
    rows = dict(line.split(maxsplit=1) for line in result.stdout.splitlines() if not line.startswith("not usable"))
    assert result.returncode == 0 and result.stderr == ""
    assert rows["rapt"] == f"{rapt.version()}, bits {rapt.bits_version()}"
    usable = [name for name, is_usable in rapt.isas().items() if is_usable]
    assert rows["levels"] == ", ".join(usable).replace("scalar", "scalar (chosen)")
    assert rows["threads"] == f"{len(os.sched_getaffinity(0))} with threads=None"
    assert os.path.samefile(rows["library"], _library.C._name)
    unusable = [name for name, is_usable in rapt.isas().items() if not is_usable]
    assert ("not usable" in result.stdout) == bool(unusable) and all(name in result.stdout for name in unusable)
    assert "warning" not in result.stdout

    result = run_python("-m", "rapt", RAPT_ISA="avx1024")
    assert "\nwarning     RAPT_ISA=avx1024 is ignored: " in result.stdout
    assert run_python("-m", "rapt", "--levels").returncode == 2


@pytest.mark.parametrize("program", [["-m", "rapt"], ["-m", "rapt", "--help"], ["-c", ATTENTION, "--version"]])
@pytest.mark.parametrize("buffering", [[], ["-u"]])
def test_output_that_nobody_reads(program: list[str], buffering: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *buffering, *program]
    result = subprocess.run(command, env=environment, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1 and result.stderr.endswith("No space left on device\n")
    assert len(result.stderr.splitlines()) == 1
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command], env=environment, stderr=subprocess.PIPE, text=True
    )
    assert closed.returncode == 0 and "Traceback" not in closed.stderr


def test_ignored_isa_warns_once() -> None:
    code = "import rapt, rapt._isa, rapt._rows; import rapt; rapt.isa_status(); print(rapt.isa(), rapt.isa_status())"
    result = run_python("-c", code, RAPT_ISA="avx1024")
    best = [name for name, is_usable in rapt.isas().items() if is_usable][-1]
    assert result.returncode == 0 and result.stdout.startswith(
        f"{best} RAPT_ISA=avx1024 is ignored: no instruction set"
    )
    assert result.stderr.count("RuntimeWarning: RAPT_ISA=avx1024 is ignored") == 1
    unusable = [name for name, is_usable in rapt.isas().items() if not is_usable]
    for name in unusable:
        result = run_python("-c", code, RAPT_ISA=name)
        assert f"RAPT_ISA={name} is ignored" in result.stdout and "RuntimeWarning" in result.stderr
    for name in ("", "scalar"):
        result = run_python("-c", code, RAPT_ISA=name)
        assert result.stdout == f"{name or best} None\n" and result.stderr == ""


def test_isa_status_is_of_the_environment_alone() -> None:
    code = "import rapt; rapt.force_isa('scalar'); print(rapt.isa_status())"
    assert run_python("-W", "ignore", "-c", code, RAPT_ISA="avx1024").stdout.startswith("RAPT_ISA=avx1024 is ignored")
