"""What has broken recorders and launchers elsewhere. README.md lists these, with the test of each."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import types
import zipfile
from typing import List

import pytest
import vramscope
from conftest import STUB, Done, Lab
from vramscope._binary import find
from vramscope._hook import samples

posix = pytest.mark.skipif(os.name != "posix", reason="signals and fork are POSIX")

ALLOCATES = "import torch\nkept = torch.zeros(1 << 20)\n"


def test_own_sitecustomize_runs_once(lab: Lab) -> None:
    """1: a launcher's sitecustomize shadows the user's, or runs it twice."""
    lab.write("own/sitecustomize.py", "import os\nos.write(1, b'mine ')\nVALUE = 7\n")
    path = f"{lab.folder / 'own'}{os.pathsep}{STUB}"
    r = lab.run(ALLOCATES + "import sitecustomize\nprint(sitecustomize.VALUE, flush=True)", PYTHONPATH=path)
    assert (r.code, r.stdout) == (0, "mine 7\n")
    assert r.why == [["exit"]]


def test_broken_sitecustomize_breaks_alike(lab: Lab) -> None:
    """2: one that raises is reported by Python, and the program goes on, as without us."""
    lab.write("own/sitecustomize.py", "raise ValueError('broken')\n")
    path = f"{lab.folder / 'own'}{os.pathsep}{STUB}"
    r = lab.run(ALLOCATES + "print('on')", PYTHONPATH=path)
    assert (r.code, r.stdout) == (0, "on\n")
    assert "ValueError: broken" in r.stderr
    assert r.why == [["exit"]]


@pytest.mark.parametrize("version", ["2.1.0", "2.4.1", "2.15.0"])
def test_every_version(lab: Lab, version: str) -> None:
    """3: PyTorch before 2.5 calls no entry points."""
    r = lab.run(ALLOCATES, STUB_TORCH_VERSION=version)
    assert (r.code, r.why) == (0, [["exit"]])
    assert r.record["environment"]["torch"] == version


def test_switched_off_entry_points(lab: Lab) -> None:
    """4: TORCH_DEVICE_BACKEND_AUTOLOAD=0 switches PyTorch's door off."""
    assert lab.run(ALLOCATES, TORCH_DEVICE_BACKEND_AUTOLOAD="0").why == [["exit"]]


@pytest.mark.parametrize("version", ["2.4.1", "2.15.0"])
def test_asked_for_before_it_is_imported(lab: Lab, version: str) -> None:
    """28: transformers asks for the spec of torch long before anybody imports it."""
    r = lab.run("""
        import importlib.util
        assert all(importlib.util.find_spec("torch").loader for _ in range(2))
        import torch
        kept = torch.zeros(1 << 20)
        """, STUB_TORCH_VERSION=version, TORCH_DEVICE_BACKEND_AUTOLOAD="0")  # fmt: skip
    assert (r.code, r.why) == (0, [["exit"]]), r.stderr


def test_finders_that_ask_all_others(lab: Lab) -> None:
    """28: another tool's finder of the same kind."""
    r = lab.run("""
        import sys
        class Finder:
            @classmethod
            def find_spec(cls, *a):
                specs = (f.find_spec(*a) for f in sys.meta_path if f is not cls and hasattr(f, "find_spec"))
                return next((s for s in specs if s is not None), None)
        sys.meta_path.insert(0, Finder)
        import torch
        kept = torch.zeros(1 << 20)
        """, STUB_TORCH_VERSION="2.4.1")  # fmt: skip
    assert (r.code, r.why) == (0, [["exit"]]), r.stderr


@posix
def test_a_colon_in_the_directory(lab: Lab) -> None:
    """29: PYTHONPATH can't hold a directory whose name is a time."""
    lab.out = lab.folder / "2026-11-28_02:55:32"
    r = lab.run(ALLOCATES)
    assert (r.code, r.why) == (0, [["exit"]]), r.stderr
    done = subprocess.run([find(), "run", "-o", str(lab.folder / "a:b"), "--print-env"], capture_output=True, env=lab.environment())
    assert done.returncode == 2 and b"ends an entry of PYTHONPATH" in done.stderr


@posix
@pytest.mark.skipif(not shutil.which("python2") or subprocess.run(["python2", "-V"], capture_output=True).returncode != 0,
                    reason="no Python 2")  # fmt: skip
def test_python_2_in_between(lab: Lab) -> None:
    """30: a launch script's helper in Python 2."""
    shell = f"python2 -c 'import json; print(json.dumps(1))' && {sys.executable} -c '{ALLOCATES}'"
    r = lab.run(command=["sh", "-c", shell])
    assert (r.code, r.stdout, r.why) == (0, "1\n", [["exit"]]), r.stderr


def test_zip_file(lab: Lab) -> None:
    """31: an application in a zip file."""
    with zipfile.ZipFile(lab.folder / "app.pyz", "w") as z:
        z.writestr("__main__.py", ALLOCATES)
    assert lab.run(command=[sys.executable, "app.pyz"]).why == [["exit"]]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python before 3.11 has no -P")
def test_safe_path(lab: Lab) -> None:
    """31: Python that leaves the script's folder out of its path."""
    assert lab.run(command=[sys.executable, "-P", "-c", ALLOCATES]).why == [["exit"]]


@pytest.mark.parametrize(
    "command, said",
    [
        ([sys.executable, "-c", "pass"], "imported no PyTorch"),
        ([sys.executable, "-s", "-I", "-c", "pass"], "Python started with -I ignores the environment"),
        (["sh", "-c", "true"], "No Python was started that heeds PYTHONPATH"),
    ],
)
def test_the_true_reason(lab: Lab, command: List[str], said: str) -> None:
    """31: where nothing was recorded it is said why."""
    assert said in lab.run(command=command).stderr


def test_named_as_what_it_is(lab: Lab) -> None:
    """32: `pip freeze` in the program shows no distribution that isn't there to install."""
    r = lab.run("""
        import importlib.metadata, os
        path = os.environ["PYTHONPATH"].split(os.pathsep)[:1]
        print([f"{d.metadata['Name']}=={d.version}" for d in importlib.metadata.distributions(path=path)])
        import torch
        kept = torch.zeros(1 << 20)
        """)  # fmt: skip
    assert (r.stdout, r.why) == (f"['vramscope=={vramscope.__version__}']\n", [["exit"]])


@posix
def test_spawned_workers(lab: Lab) -> None:
    """5: workers that are spawned are recorded: the variables stay where they are."""
    r = lab.run("""
        import multiprocessing, sys
        def work(n):
            import torch
            torch.zeros(n << 20)
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            workers = [context.Process(target=work, args=(n,)) for n in (1, 2)]
            [w.start() for w in workers]
            [w.join() for w in workers]
            sys.exit(sum(w.exitcode for w in workers))
        """)
    assert (r.code, r.why) == (0, [["exit"], ["exit"]])


@posix
def test_forked_workers(lab: Lab) -> None:
    """6: a child that is forked while CUDA is up records nothing, and dies of signals as any."""
    r = lab.run("""
        import os, signal, time, torch
        kept = torch.zeros(1 << 20)
        up, tell = os.pipe()
        child = os.fork()
        if child == 0:
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
            os.write(tell, b"up")
            time.sleep(600)
        print(os.read(up, 2).decode(), end=" ")
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """)
    assert (r.code, r.stdout) == (0, "up -15\n")
    assert r.why == [["exit"]]


@posix
def test_forked_before_cuda(lab: Lab) -> None:
    """7: a child that is forked before CUDA comes up, and brings it up itself, is recorded."""
    r = lab.run("""
        import multiprocessing, torch
        def work():
            torch.zeros(1 << 20)
        if __name__ == "__main__":
            w = multiprocessing.get_context("fork").Process(target=work)
            w.start(); w.join()
        """)
    assert (r.code, r.why) == (0, [["exit"]])


@posix
def test_ignored_environment(lab: Lab) -> None:
    """8: Python that ignores the environment is told of in the end, with what to do."""
    program = lab.write("program.py", f"import sys\nsys.path.append({str(STUB)!r})\n{ALLOCATES}print('done')")
    r = lab.run(command=[sys._base_executable, "-I", str(program)])  # type: ignore[attr-defined]
    assert (r.code, r.stdout) == (0, "done\n")
    assert "no process imported PyTorch with the recorder in it" in r.stderr
    assert "pip install vramscope" in r.stderr
    assert r.processes == []


@posix
def test_through_scripts(lab: Lab) -> None:
    """9: shell scripts, console scripts and `python -c` in between."""
    lab.write("program.py", ALLOCATES)
    script = lab.write("tool", f"#!{sys.executable}\n{ALLOCATES}")
    script.chmod(0o755)
    shell = lab.write("job.sh", f"set -e\n./tool\n{sys.executable} -c 'import subprocess, sys; "
                                "subprocess.run([sys.executable, \"program.py\"], check=True)'\nexit 5\n")  # fmt: skip
    r = lab.run(command=["sh", str(shell)])
    assert (r.code, r.why) == (5, [["exit"], ["exit"]])


def test_writes_only_into_its_folder(lab: Lab) -> None:
    """10: site-packages may be read-only, and a left-over .pth breaks Python."""
    before = sorted(str(p) for p in lab.folder.rglob("*"))
    lab.run(command=[sys.executable, "-c", ALLOCATES])
    after = sorted(str(p) for p in lab.folder.rglob("*") if lab.out not in p.parents and p != lab.out)
    assert after == before


def test_cuda_up_at_import(lab: Lab) -> None:
    """11: CUDA that is up before the recorder is called."""
    assert lab.run(ALLOCATES, STUB_TORCH_EAGER="1").why == [["exit"]]


def test_helpers_without_cuda(lab: Lab) -> None:
    """12: compile workers and data loaders import PyTorch and never use CUDA; they leave nothing."""
    r = lab.run("""
        import subprocess, sys, torch
        for _ in range(3):
            subprocess.run([sys.executable, "-c", "import torch"], check=True)
        assert not torch.cuda.is_initialized(), "the recorder brought CUDA up"
        """)
    assert (r.code, r.processes) == (0, [])
    assert "no process used CUDA" in r.stderr
    assert r.files == ["output.log", "run.json"]


@pytest.mark.parametrize("end, code", [("", 0), ("raise SystemExit(3)", 3), ("raise ValueError()", 1)])
def test_exit_codes(lab: Lab, end: str, code: int) -> None:
    """13: exit codes are the program's; one of 0 after a failure sends jobs on."""
    r = lab.run(ALLOCATES + end)
    assert (r.code, r.record["exit_code"], r.why) == (code, code, [["exit"]])


@pytest.mark.parametrize(
    "condition, program, code, said",
    [
        ("oom", "", 0, "more with"),
        ("allocated>1KiB", "", 1, "condition holds: allocated>1KiB"),
        ("allocated>1KiB", "raise SystemExit(7)", 7, "condition holds: allocated>1KiB"),
        ("reserved>95%", "", 2, "can't be judged"),
    ],
)
def test_conditions(lab: Lab, condition: str, program: str, code: int, said: str) -> None:
    """A condition that holds fails a program that ended well; one that can't be judged doesn't pass in silence."""
    r = lab.run(ALLOCATES + program, "--fail-on", condition)
    assert r.code == code and said in r.stderr


def test_conditions_without_a_recording(lab: Lab) -> None:
    assert lab.run("", "--fail-on", "oom").code == 2
    line = [find(), "run", "--no-analyze", "--fail-on", "oom", "--", "true"]
    assert b"has no effect" in subprocess.run(line, capture_output=True, cwd=lab.folder).stderr


def test_os_exit(lab: Lab) -> None:
    """13: os._exit runs no exit handlers."""
    r = lab.run(ALLOCATES + "import os\nos._exit(7)")
    assert (r.code, r.why) == (7, [["exit"]])


def test_caught_out_of_memory(lab: Lab) -> None:
    """14: programs catch the error and retry: the first and the last dump stay."""
    r = lab.run("""
        import torch
        caught = 0
        for size in (9, 8, 7, 6, 1):
            try:
                kept = torch.zeros(size << 20)
            except torch.OutOfMemoryError:
                caught += 1
        print(caught)
        """, STUB_TORCH_CAPACITY=str(5 << 20))  # fmt: skip
    assert (r.code, r.stdout) == (0, "4\n")
    assert r.why == [["oom", "oom", "exit"]]
    assert [d["file"] is None for d in r.processes[0]["dumps"]] == [False, True, True, False, False]
    assert r.processes[0]["ooms"] == 4


def test_fatal_out_of_memory(lab: Lab) -> None:
    """The dump is from before the error unwinds: the variables of the function that failed are there."""
    r = lab.run("""
        import torch
        def train():
            history = [torch.zeros(1 << 20) for _ in range(4)]
            torch.zeros(2 << 20)
        train()
        """, STUB_TORCH_CAPACITY=str(5 << 20))  # fmt: skip
    assert r.code == 1 and "OutOfMemoryError" in r.stderr
    assert r.why == [["oom"]]
    assert len(r.holders("oom")["train().history"]["tensors"]) == 4
    assert "report.html" in r.files


def test_same_pid_again(lab: Lab) -> None:
    """15: pids come again, in containers above all: no dump replaces another process' one."""
    program = """
        import os, torch
        os.getpid = lambda: 42
        """
    lab.run("import os\nos.getpid = lambda: 42\n" + ALLOCATES)
    assert lab.out.joinpath("pid42-0-exit.pickle.gz").exists()
    first = lab.out.joinpath("pid42-0-exit.pickle.gz").read_bytes()
    assert program
    hook = lab.out / ".hook" / "path"
    path = f"{hook}{os.pathsep}{STUB}"
    lab.plain(sys.executable, "-c", "import os\nos.getpid = lambda: 42\n" + ALLOCATES, VRAMSCOPE_RUN=str(lab.out), PYTHONPATH=path)
    dumps = sorted(p.name for p in lab.out.glob("*.pickle.gz"))
    assert len(dumps) == 2
    assert lab.out.joinpath("pid42-0-exit.pickle.gz").read_bytes() == first


def test_bounded_disk(lab: Lab) -> None:
    """16: a full disk: nothing half-written, what was good stays, and it is said."""
    lab.run(ALLOCATES)
    before = sorted(p.name for p in lab.out.iterdir())
    path = f"{lab.out / '.hook' / 'path'}{os.pathsep}{STUB}"
    done = lab.plain(sys.executable, "-c", ALLOCATES, VRAMSCOPE_RUN=str(lab.out), VRAMSCOPE_OPTIONS="disk=100", PYTHONPATH=path)
    assert done.returncode == 0 and not done.stderr
    assert sorted(p.name for p in lab.out.iterdir()) == before
    said = [json.loads(p.read_text()) for p in (lab.out / ".hook" / "processes").iterdir()]
    assert any("it would have taken more than 100 bytes" in n for s in said for n in s["notes"])


@posix
def test_killed(lab: Lab) -> None:
    """17: SIGKILL: what was dumped stays readable, and the end is told."""
    r = lab.run("""
        import os, signal, torch
        optimizer = torch.optim.Optimizer([])
        for _ in range(3):
            kept = torch.zeros(1 << 20)
            optimizer.step()
        os.kill(os.getpid(), signal.SIGKILL)
        """, "--steps", "1:2")  # fmt: skip
    assert r.code == -signal.SIGKILL
    assert (r.record["signal"], r.why) == ("SIGKILL", [["step", "step"]])
    assert "SIGKILL" in r.stderr and "SIGKILL" in r.record["notes"][-1]
    assert b"peaked" in subprocess.run([find(), "analyze", "-q", str(lab.out)], capture_output=True, check=True).stdout


def test_program_that_records_itself(lab: Lab) -> None:
    """18: a recording of the program's own is left alone, and dumped before it is switched off."""
    r = lab.run("""
        import torch
        torch.cuda.memory._record_memory_history(max_entries=77)
        kept = torch.zeros(1 << 20)
        assert torch.cuda._device.entries == 77
        assert len(torch.cuda.memory._snapshot()["device_traces"][0]) == 2
        torch.cuda.memory._record_memory_history(enabled=None)
        assert torch.cuda._device.recording is None
        """)
    assert (r.code, r.why) == (0, [["stop", "exit"]])
    assert r.processes[0]["recording"] == "off"


def test_allocator_without_history(lab: Lab) -> None:
    """19: other allocators keep no history: their counters are kept step by step, and it is said."""
    r = lab.run("""
        import torch
        o, kept = torch.optim.Optimizer([]), []
        for _ in range(5):
            kept.append(torch.zeros(1 << 30))
            o.step()
        """, STUB_TORCH_ALLOCATOR="cudaMallocAsync")  # fmt: skip
    assert (r.code, r.why, r.processes[0]["recording"]) == (0, [[]], "unavailable")
    assert "this allocator keeps no history" in r.stderr
    assert r.processes[0]["memory_stats"]["0"]["reserved_bytes.all.peak"] == 5 << 30
    rows = next(lab.out.glob("pid*-memory.csv")).read_text().split()
    assert rows[0] == "step,elapsed,memory_allocated_bytes,max_memory_allocated_bytes,max_memory_reserved_bytes"
    assert [row.split(",")[0::2] for row in rows[1:]][-1] == ["5", str(5 << 30), str(5 << 30)]
    (steps,) = vramscope.analyze(lab.out).json["evidence"]["steps"]
    assert steps["max_memory_bytes"] == 5 << 30
    assert "5 GiB" in r.stderr


def test_samples_are_bounded() -> None:
    """19: a long run keeps evenly thinned readings."""
    stats = types.SimpleNamespace(cuda=types.SimpleNamespace(memory_stats=lambda: {}))
    s = samples.Samples(stats)
    s.began -= 1e6
    for step in range(10 * samples.POINTS):
        s.take(step)
    assert samples.POINTS // 2 <= len(s.rows) <= samples.POINTS
    gaps = {b[0] - a[0] for a, b in zip(s.rows, s.rows[1:-1])}
    assert max(gaps) <= 2 * min(gaps), gaps


@posix
def test_the_compiler_stays_away(lab: Lab) -> None:
    """34: PyTorch's snapshot would import its compiler, which takes seconds and reads settings too early."""
    r = lab.run("""
        import os, signal, torch
        kept = torch.zeros(1 << 20)
        os.kill(os.getpid(), signal.SIGUSR2)
        print("compiler" in vars(torch), "_inductor" in vars(torch))
        """)
    assert (r.stdout, r.why) == ("False False\n", [["signal", "exit"]])


@posix
def test_terminated(lab: Lab) -> None:
    """20: SIGTERM: a dump with the variables of the moment, then death by SIGTERM, as without us."""
    r = lab.run("""
        import os, signal, torch
        def wait():
            batch = torch.zeros(1 << 20)
            os.kill(os.getpid(), signal.SIGTERM)
        wait()
        """)
    assert r.code == -signal.SIGTERM
    assert (r.record["signal"], r.record["exit_code"], r.why) == ("SIGTERM", None, [["signal"]])
    assert "wait().batch" in r.holders("signal")


@posix
def test_handler_of_the_program(lab: Lab) -> None:
    """20: a handler of the program's own stays."""
    r = lab.run("""
        import os, signal, sys, torch
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
        kept = torch.zeros(1 << 20)
        os.kill(os.getpid(), signal.SIGTERM)
        """)
    assert (r.code, r.why) == (9, [["exit"]])


def test_recorder_that_fails(lab: Lab) -> None:
    """21: an exception in an entry point breaks `import torch`: none gets out, whatever is wrong."""
    lab.run(ALLOCATES)
    path = f"{lab.out / '.hook' / 'path'}{os.pathsep}{STUB}"
    nowhere = lab.write("file", "") / "below"
    done = lab.plain(sys.executable, "-W", "error", "-c", ALLOCATES + "print('fine')", VRAMSCOPE_RUN=str(nowhere),
                     VRAMSCOPE_OPTIONS="ring=x,steps=,ranks=a-b,=,stacks", PYTHONPATH=path)  # fmt: skip
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"fine", b"")


def test_output_is_untouched(lab: Lab) -> None:
    """What the program prints is what it prints without us, on both streams; the log has both."""
    program = lab.write("program.py", "import sys\nsys.stdout.write('a\\r\\n\\x1b[1mb')\nsys.stderr.write('c')\n" + ALLOCATES)
    plain = lab.plain(sys.executable, str(program))
    r = lab.run("", "--no-analyze", command=[sys.executable, str(program)])
    assert r.stdout.encode() == plain.stdout
    assert r.stderr.startswith(plain.stderr.decode() + "vramscope: ")
    log = (lab.out / "output.log").read_bytes()
    assert plain.stdout in log and plain.stderr in log


def test_arguments_are_the_programs(lab: Lab) -> None:
    """Flags behind the command are the program's, known or not."""
    program = lab.write("program.py", "import sys\nprint(sys.argv[1:])")
    line = [find(), "run", "-o", str(lab.out), sys.executable, str(program), "--steps", "x", "--ring=?", "--", "-h"]
    done = subprocess.run(line, capture_output=True, env=lab.environment())
    assert done.stdout.decode().strip() == "['--steps', 'x', '--ring=?', '--', '-h']"


def test_ranks(lab: Lab) -> None:
    """All ranks dump at once: --ranks has some of them recorded; names say which."""
    r = lab.run("""
        import os, subprocess, sys
        for rank in range(4):
            subprocess.run([sys.executable, "-c", "import torch; torch.zeros(1 << 20)"], env={**os.environ, "RANK": str(rank)})
        """, "--ranks", "0,2-3")  # fmt: skip
    assert [(p["rank"], p["recording"]) for p in r.processes] == [(0, "all"), (1, "unwanted"), (2, "all"), (3, "all")]
    assert r.why == [["exit"], [], ["exit"], ["exit"]]
    assert sum(name.startswith("rank2-pid") for name in r.files) == 3


def test_signal_to_the_launcher(lab: Lab) -> None:
    """SIGUSR2 to `vramscope run` has the recording processes dump, not the launcher between, which it would end."""
    program = lab.write("program.py", """
        import time, torch
        kept = torch.zeros(1 << 20)
        print("up", flush=True)
        time.sleep(60)
        """)  # fmt: skip
    line = [find(), "run", "-o", str(lab.out), "--", "sh", "-c", f"{sys.executable} {program}; exit 4"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=lab.environment()) as p:
        assert p.stdout is not None and p.stdout.readline() == b"up\n"
        p.send_signal(signal.SIGUSR2)
        deadline = time.monotonic() + 30
        while not list(lab.out.glob("*-signal.pickle.gz")) and time.monotonic() < deadline:
            time.sleep(0.05)
        (dumped,) = lab.out.glob("*-signal.pickle.gz")
        os.kill(int(dumped.name[3:].split("-")[0]), signal.SIGKILL)
        p.wait(30)
    assert p.returncode == 4


@posix
def test_secrets_of_the_command_line(lab: Lab) -> None:
    """33: keys among the arguments: they are on no page, and in no file that others read."""
    program = lab.write("program.py", ALLOCATES + "raise SystemExit(1)")
    line = [sys.executable, str(program), "--hf_token", "hf_SECRET1", "--wandb_key=SECRET2", "--lr", "1e-4"]
    r = lab.run(command=line)
    ticket = subprocess.run([find(), "analyze", "--format", "markdown", str(lab.out)], capture_output=True, check=True).stdout.decode()
    for text in (r.stderr, (lab.out / "report.html").read_text(), ticket, (lab.out / "run.json").read_text()):
        assert "SECRET" not in text
    assert "--hf_token …" in r.stderr and "--lr 1e-4" in r.stderr and r.record["command"][-2:] == ["--lr", "1e-4"]
    hidden = [p for p in (lab.out / ".hook").rglob("*") if p.is_file()]
    assert hidden and {stat.S_IMODE(p.stat().st_mode) for p in [*hidden, lab.out / "run.json"]} == {0o600}
    assert not any(b"SECRET" in p.read_bytes() for p in hidden)


@posix
def test_interrupted(lab: Lab) -> None:
    """22: Ctrl-C: a dump, then death by SIGINT, as without us; a shell's loop ends by that."""
    r = lab.run("""
        import os, signal, torch
        def wait():
            batch = torch.zeros(1 << 20)
            os.kill(os.getpid(), signal.SIGINT)
        wait()
        """, "--no-analyze")  # fmt: skip
    assert r.code == -signal.SIGINT
    assert (r.record["signal"], r.record["exit_code"], r.why) == ("SIGINT", None, [["exit"]])
    assert "KeyboardInterrupt" in r.stderr


@posix
def test_caught_interrupt(lab: Lab) -> None:
    """22: a program that handles Ctrl-C ends as it likes."""
    r = lab.run("""
        import torch
        kept = torch.zeros(1 << 20)
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise SystemExit(3)
        """)
    assert (r.code, r.why) == (3, [["exit"]])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells who would die of a signal")
@pytest.mark.parametrize("shell", ["exec {python} {program}", "{python} {program}; exit $?"])
def test_signal_before_the_recorder(lab: Lab, shell: str) -> None:
    """23: SIGUSR2 before PyTorch has come up is kept until it has; it would end Python, or the shell between."""
    program = lab.write("program.py", """
        import os, time
        print("up", flush=True)
        while not os.path.exists("go"):
            time.sleep(0.02)
        import torch
        kept = torch.zeros(1 << 20)
        while not any(name.endswith("-signal.pickle.gz") for name in os.listdir("out")):
            time.sleep(0.02)
        """)  # fmt: skip
    command = ["sh", "-c", shell.format(python=sys.executable, program=program)]
    line = [find(), "run", "--no-analyze", "-o", str(lab.out), "--", *command]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=lab.environment(), cwd=lab.folder) as p:
        assert p.stdout is not None and p.stdout.readline() == b"up\n"
        p.send_signal(signal.SIGUSR2)
        time.sleep(0.5)  # it would end the program meanwhile
        lab.write("go", "")
        try:
            assert p.wait(60) == 0
        finally:
            p.kill()
    assert Done(lab.out, subprocess.CompletedProcess(line, 0, b"", b"")).why == [["signal", "exit"]]


def test_environment_for_elsewhere(lab: Lab) -> None:
    """The variables that a job script sets by itself do the same."""
    done = subprocess.run([find(), "run", "-o", str(lab.out), "--print-env"], capture_output=True, env=lab.environment(), check=True)
    shell = done.stdout.decode() + f"exec {sys.executable} -c '{ALLOCATES}'"
    assert subprocess.run(["sh", "-c", shell], env=lab.environment()).returncode == 0
    (dump,) = lab.out.glob("*-exit.pickle.gz")
    assert stat.S_IMODE(dump.stat().st_mode) & 0o400


def test_nothing_of_the_program_runs(lab: Lab) -> None:
    """No property, `__getattr__`, `__eq__`, `__iter__` or `__class__` of the program is asked for its holders."""
    r = lab.run("""
        import threading, torch
        class Meta(type):
            def __getattribute__(self, name): raise SystemExit("getattribute")
            def __hash__(self): raise SystemExit("hash")
            def __eq__(self, other): raise SystemExit("eq")
            def __instancecheck__(self, other): raise SystemExit("isinstance")
        class Made(metaclass=Meta):
            items = [torch.zeros(1 << 20)]
            me = property(lambda self: SystemExit("property"))
            def __format__(self, how): raise SystemExit("format")
        class Own(threading.local):
            def __init__(self):
                if threading.current_thread() is threading.main_thread(): raise SystemExit("init")
        owns = []
        thread = threading.Thread(target=lambda: owns.append(Own()))
        thread.start(); thread.join()
        class Key(str):
            def __hash__(self): return 7
            def __format__(self, how): raise SystemExit("format")
        made = {Key("a"): [Made()]}
        class Odd:
            __slots__ = ("hidden", "__dict__")
            def __getattr__(self, name): raise SystemExit("getattr " + name)
            @property
            def value(self): raise SystemExit("property")
            @property
            def __class__(self): raise SystemExit("class")
            def __eq__(self, other): raise SystemExit("eq")
            def __hash__(self): raise SystemExit("hash")
            def __len__(self): raise SystemExit("len")
        class List(list):
            def __iter__(self): raise SystemExit("iter")
            def __len__(self): raise SystemExit("len")
        odd = Odd()
        odd.hidden = List([torch.zeros(1 << 20)])
        odd.shown = {"key": torch.zeros(1 << 20)}
        loop = []
        loop.append(loop)
        """)
    assert (r.code, r.stderr[:10]) == (0, "vramscope:")
    assert set(r.holders("exit")) == {
        "main.odd.hidden[0]", "main.odd.shown['key']", "main.Made.items[0]"}  # fmt: skip
