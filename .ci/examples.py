"""examples.py EXAMPLES RECORDINGS WORK: runs the shell steps of CI examples.

A stand-in for what would run them: expressions are looked up, `if` is known for what the steps
use, and each step is a shell of its own. The recorded program copies a recording to where one
would lie.
"""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import yaml

EXAMPLES, RECORDINGS, WORK = (os.path.abspath(p) for p in sys.argv[1:])
OOM = os.path.join(RECORDINGS, "qwen_vocab_oom__05b/snapshot_all.pickle.gz")
FINE = os.path.join(RECORDINGS, "mlp_regression__script/snapshot_all.pickle.gz")
BEFORE = os.path.join(RECORDINGS, "frag_oom__pairwise_docs/snapshot_all.pickle.gz")
AFTER = os.path.join(RECORDINGS, "frag_oom__pairwise_docs/snapshot_expandable.pickle.gz")


def shell(script, env, folder, *options):
    """Runs a step; its exit code and output."""
    p = subprocess.run(["bash", *options, "-c", script], cwd=folder, env={**os.environ, **env}, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return p.returncode, p.stdout


def fresh(name):
    folder = os.path.join(WORK, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def github(folder, **given):
    """Runs the composite action: exit code, output, summary."""
    action = yaml.safe_load(open(os.path.join(EXAMPLES, "action.yml")))
    assert action["runs"]["using"] == "composite"
    inputs = {name: given.get(name.replace("-", "_"), x["default"]) for name, x in action["inputs"].items()}
    context = {f"inputs.{name}": value for name, value in inputs.items()} | {"github.action_path": EXAMPLES}
    said = ""
    summary = os.path.join(folder, "step_summary")
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash" and "${{" not in step["run"], "an expression within a script is an injection"
        if step.get("if") == "inputs.run != ''" and inputs["run"] == "":
            continue
        env = {k: re.sub(r"\$\{\{ *(.*?) *\}\}", lambda m: context[m[1]], v) for k, v in step.get("env", {}).items()}
        code, out = shell(step["run"], env | {"GITHUB_STEP_SUMMARY": summary}, folder, "--noprofile", "--norc", "-eo", "pipefail")
        said += out
        if code:
            break
    return code, said, open(summary).read() if os.path.exists(summary) else ""


def gitlab(folder, **variables):
    """Runs the template's script: exit code, output."""
    job = yaml.safe_load(open(os.path.join(EXAMPLES, "gitlab.yml")))[".vramscope"]
    env = job["variables"] | {"GATE": os.path.join(EXAMPLES, "gate.sh"), "CI_DEFAULT_BRANCH": "main"} | variables
    return shell("\n".join(job["script"]), env, folder, "-eo", "pipefail")


def cases(folder, name="gate.xml"):
    """What failed in a gate's XML, and how many cases it has."""
    root = ElementTree.parse(os.path.join(folder, "vramscope-report", name)).getroot()
    return sorted(c.get("name") for c in root.iter("testcase") if c.find("failure") is not None), len(list(root.iter("testcase")))


def has(folder, *names):
    for name in names:
        assert os.path.getsize(os.path.join(folder, "vramscope-report", name)) > 0, name


folder = fresh("github-oom")
code, said, summary = github(folder, recording=OOM)
assert code == 1 and "condition holds: oom" in said, (code, said)
assert "Out of memory" in summary and len(summary) < 1 << 20, summary[:200]
assert cases(folder) == (["oom"], 2), cases(folder)
has(folder, "report.html", "report.json", "summary.md")

folder = fresh("github-run")
code, said, summary = github(folder, run=f'mkdir -p vramscope-run; cp {FINE} vramscope-run/; exit 3')
assert code == 0 and "::warning::the program ended with exit code 3" in said, (code, said)
assert cases(folder) == ([], 2) and summary, summary

folder = fresh("github-grew")
code, said, summary = github(folder, recording=AFTER, baseline=BEFORE, fail_on="oom\n")
assert code == 1 and "condition holds: grew>5%" in said, (code, said)
assert cases(folder) == ([], 1) and cases(folder, "gate-growth.xml") == (["grew>5%"], 1)
assert "grew by" in summary, summary

folder = fresh("github-no-baseline")
code, said, summary = github(folder, recording=FINE, baseline="vramscope-baseline", fail_on="")
assert code == 0 and not os.path.exists(os.path.join(folder, "vramscope-report/gate.xml")), (code, said)

folder = fresh("github-hostile")
code, said, summary = github(folder, recording=FINE, fail_on='oom"; touch hacked; "\n')
assert code == 2 and not os.path.exists(os.path.join(folder, "hacked")), (code, said)

folder = fresh("github-nothing")
code, said, summary = github(folder, recording="nothing.pickle")
assert code == 2 and "no such file" in said, (code, said)

folder = fresh("gitlab")
record = "mkdir -p vramscope-run; cp {} vramscope-run/"
code, said = gitlab(folder, RUN=record.format(FINE), CI_COMMIT_BRANCH="main")
assert code == 0 and os.path.isdir(os.path.join(folder, "vramscope-baseline")), (code, said)
assert cases(folder) == ([], 2)
shutil.rmtree(os.path.join(folder, "vramscope-run"))
code, said = gitlab(folder, RUN=record.format(OOM), CI_COMMIT_BRANCH="change")
assert code == 1 and "condition holds: oom" in said and "condition holds: grew>5%" in said, (code, said)
assert cases(folder) == (["oom"], 2) and cases(folder, "gate-growth.xml") == (["grew>5%"], 1)
assert len(os.listdir(os.path.join(folder, "vramscope-baseline"))) and "snapshot" in str(os.listdir(os.path.join(folder, "vramscope-baseline")))

for name in ("workflow.yml",):
    steps = yaml.safe_load(open(os.path.join(EXAMPLES, name)))["jobs"]["memory"]["steps"]
    known = yaml.safe_load(open(os.path.join(EXAMPLES, "action.yml")))["inputs"]
    used = next(s["with"] for s in steps if s.get("uses", "").startswith("./"))
    assert set(used) <= set(known), used
print("the steps of the CI examples gate, compare and summarise")
