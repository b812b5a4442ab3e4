"""Reads what `export --format perfetto` writes with Perfetto's own schema.

    python3 .ci/profiles.py VRAMSCOPE RECORDING...

Needs the package perfetto. Checks that every event belongs to a track that was
described, that times never fall, that slices nest and are the steps of the report,
that at every instant the categories sum to what is allocated, and that the
highest values are the report's peaks.
"""

import json
import subprocess
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

CURVES = ("allocated", "reserved", "active", "requested")
EVENT = schema.TrackEvent


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


class Device:
    """The tracks of one device and where their values stand."""

    def __init__(self):
        self.tracks = {}  # uuid -> descriptor
        self.now, self.highest = {}, {}  # counter -> bytes
        self.open, self.top = [], []  # slices
        self.time = 0

    def settle(self):
        """Called between two instants."""
        categories = sum(v for k, v in self.now.items() if k not in CURVES)
        assert categories == self.now.get("allocated", 0), f"{self.time}: categories hold {categories}, allocated are {self.now}"

    def event(self, e, time, names):
        track = self.tracks[e.track_uuid]
        if track.HasField("counter"):
            assert e.type == EVENT.TYPE_COUNTER and track.counter.unit == schema.CounterDescriptor.UNIT_SIZE_BYTES
            if time != self.time:
                assert time > self.time, f"{time} after {self.time}"
                self.settle()
                self.time = time
            self.now[track.name] = e.counter_value
            self.highest[track.name] = max(self.highest.get(track.name, 0), e.counter_value)
            assert e.counter_value >= 0
        elif e.type == EVENT.TYPE_SLICE_BEGIN:
            assert not self.open or self.open[-1] <= time
            if not self.open:
                self.top.append(e.name or names[e.name_iid])
            self.open.append(time)
        elif e.type == EVENT.TYPE_SLICE_END:
            assert self.open.pop() <= time
        else:
            assert e.type == EVENT.TYPE_INSTANT, e


def devices(trace):
    found, names, uuids = {}, {}, set()
    for p in trace.packet:
        sequence = p.trusted_packet_sequence_id
        if p.sequence_flags & schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            found[sequence], names[sequence] = Device(), {}
        d = found[sequence]
        if p.HasField("track_descriptor"):
            t = p.track_descriptor
            assert t.name and t.uuid not in uuids and (not t.parent_uuid or t.parent_uuid in d.tracks), t
            uuids.add(t.uuid)
            d.tracks[t.uuid] = t
        if p.HasField("track_event"):
            names[sequence].update((n.iid, n.name) for n in p.interned_data.event_names)
            d.event(p.track_event, p.timestamp, names[sequence])
    return list(found.values())


def check(program, recording):
    report = json.loads(run(program, "analyze", "--all-steps", "--quiet", "--format", "json", recording))
    trace = schema.Trace()
    trace.ParseFromString(run(program, "export", "--format", "perfetto", recording))
    found = devices(trace)
    assert len(found) == len(report["devices"]), f"{len(found)} devices"
    for d, expected in zip(found, report["devices"]):
        d.settle()
        assert not d.open, "slices are left open"
        for curve in CURVES:
            assert d.highest[curve] == expected["peaks"][curve]["bytes"], (curve, d.highest, expected["peaks"])
        steps = [name for name in d.top if name.startswith("step ")]
        assert steps == [f"step {s['step']}" for s in expected["steps"]], steps
        failed = [t for t in d.tracks.values() if t.name == "out of memory"]
        assert bool(failed) == bool(expected["ooms"])
    print(f"{recording}: {len(trace.packet)} packets, {len(found)} devices")


program, *recordings = sys.argv[1:]
assert recordings
for recording in recordings:
    check(program, recording)
