"""agents.py VRAMSCOPE ROOT: asks `vramscope mcp` through the Python package mcp.

ROOT has run/oom.pickle.gz, run/frag.pickle.gz, link.pickle.gz and a folder linked, both of which
lead out of it.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

VRAMSCOPE, ROOT = sys.argv[1:]


def field(thing, snake, camel):
    """A field of a result, whose names changed between versions of the package."""
    return getattr(thing, snake) if hasattr(thing, snake) else getattr(thing, camel)


async def main():
    server = StdioServerParameters(command=VRAMSCOPE, args=["mcp", "--root", ROOT])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = {t.name: t for t in (await session.list_tools()).tools}
        assert set(tools) == {"analyze", "explain", "whatif", "budget", "diff", "record"}, set(tools)
        for name, tool in tools.items():
            assert field(tool, "input_schema", "inputSchema")["type"] == "object", name
            assert field(tool, "output_schema", "outputSchema")["required"], name
            assert field(tool.annotations, "read_only_hint", "readOnlyHint"), name

        async def call(tool, **arguments):
            result = await session.call_tool(tool, arguments)
            failed = field(result, "is_error", "isError")
            text = result.content[0].text
            return (None, text) if failed else (field(result, "structured_content", "structuredContent"), text)

        report, text = await call("analyze", paths=["run/oom.pickle.gz"])
        assert report["schema"] == "vramscope.report/1" and report["verdict"]["severity"] == "critical", report
        assert json.loads(text) == report and len(text) <= 20_000 + 200, len(text)
        assert report["devices"][0]["findings"][0]["id"] == "oom_true_shortage"

        short, text = await call("analyze", paths=["run/oom.pickle.gz"], max_bytes=4000)
        assert len(text) <= 4000 + 200 and short["left_out"], len(text)

        answer, _ = await call("explain", paths=["run/oom.pickle.gz"], kind="oom", value="0")
        assert answer["oom"]["verdict"] == "true_shortage" and answer["next"], answer
        for question in answer["next"]:
            more, text = await call("explain", paths=["run/oom.pickle.gz"], kind=question["kind"], value=question["value"])
            assert more, (question, text)

        tried, _ = await call("whatif", path="run/frag.pickle.gz", conf=["expandable_segments:True"])
        fits = {s["name"]: not s["oom"] for s in tried["scenarios"]}
        assert fits == {"recorded": False, "expandable_segments:True": True}, fits

        theory, _ = await call("budget", params="8B", batch=1, sequence=2048)
        assert theory["peak_bytes"] > 8 << 30, theory
        grown, _ = await call("diff", before="run/oom.pickle.gz", after="run/frag.pickle.gz", fail_on=["oom"])
        assert grown["exit_code"] == 1 and "oom" in " ".join(grown["messages"]), grown["messages"]
        lines, _ = await call("record", kinds=["oom"])
        assert "_record_memory_history" in lines["text"]

        for path in ["/etc/passwd", "../secret.pickle.gz", "link.pickle.gz", "linked", "linked/snapshot.pickle.gz", "/proc/self/environ",
                     "-", "", "s3://bucket/key", "http://127.0.0.1/x", "run/../../secret.pickle.gz", "run/nothing", "a\x00b"]:
            for tool, arguments in [("analyze", {"paths": [path]}), ("explain", {"paths": [path], "kind": "oom", "value": "0"}),
                                    ("whatif", {"path": path}), ("diff", {"before": "run/oom.pickle.gz", "after": path}),
                                    ("budget", {"config": path, "params": "1B"} if path else {"config": "/etc/passwd"})]:
                refused, text = await call(tool, **arguments)
                assert refused is None and "root:" not in text, (tool, path, text)
                assert any(s in text for s in ["not below a root", "is no name of a file", "only files of this machine"]), (tool, path, text)
        for tool, arguments in [("analyze", {"paths": []}), ("analyze", {"paths": ["run/oom.pickle.gz"], "max_bytes": 10}),
                                ("explain", {"paths": ["run/oom.pickle.gz"], "kind": "output", "value": "x"}),
                                ("analyze", {"paths": ["run/oom.pickle.gz"], "config": "--output=x"}),
                                ("whatif", {"path": "run/oom.pickle.gz", "conf": ["x"] * 17})]:
            refused, text = await call(tool, **arguments)
            assert refused is None, (tool, arguments, text)
    print(f"{len(tools)} tools answer the Python package mcp; paths outside of the root are refused")


asyncio.run(main())
