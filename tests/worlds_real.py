#!/usr/bin/env python3
"""Small random fleets struck by faults, simulated and on real pages: both must say the same.

usage: worlds_real.py KVTWIN SEED COUNT

World SEED, SEED + 1, ... each draws a fleet, its pools, a prefix cache, a load and the guards of
its roles, and runs two trials of every class by `inject --backend cpu`. A trial in which exposure,
outcome or cross-tenant reads differ is printed with the command that runs that world again; its
config stays in build/worlds_real/.
"""
import json
import pathlib
import random
import subprocess
import sys

KINDS = ("stale-reader, premature-free, late-write, wrong-map, prefix-poison, double-free, leak, "
         "partial-transfer, message-fault, residue, bit-flip, node-fault, liveness, false-alarm")
CHECKS = ("once", "before-read", "before-write", "after-step", "sampled")
POLICIES = ("abort", "recompute", "refetch")
FOLDER = pathlib.Path("build/worlds_real")


def draw_guard(dice, role):
    """Guards that look at pages have one check and one policy; a serve role gets no messages."""
    looks = [name for name in ("tag-side", "tag-inband", "digest", "canary") if dice.random() < 0.35]
    check, on_hit = dice.choice(CHECKS), dice.choice(POLICIES)
    check = f"check: {check}, on_hit: {on_hit}" + ", sample: 0.4" * (check == "sampled")
    keys = {name: check + (", bits: 32" if name.startswith("tag") else "") for name in looks}
    for name in ("zero-on-free", "deferred-free") + ("request-id", "lease") * (role != "serve"):
        if dice.random() < 0.15:
            keys[name] = "term: 20 ms" if name == "lease" else ""
    if looks and dice.random() < 0.2:
        keys["quarantine"] = ""
    return ", ".join(f"{name}: {{{value}}}" for name, value in keys.items()) or "none: {}"


def draw_role(dice, role, page):
    tight = dice.random() < 0.5
    chunk = page * dice.randint(1, 4)
    keys = [f"chunk_tokens: {chunk}, batch_tokens: {dice.choice((chunk, 64, 128, 512))}",
            f"max_running: {dice.randint(2, 8)}, free_order: {dice.choice(('lifo', 'fifo'))}",
            f"overlap: {dice.choice(('true', 'false'))}"]
    if role == "decode":
        keys.append(f"reserved_decode_tokens: {dice.choice((1, 8, 40))}")
    else:
        keys.append(f"prefix_cache: {dice.choice(('true', 'false'))}")
    pages = dice.randint(10, 20) if tight else dice.randint(30, 60)
    kv = "bf16" if role == "prefill" else dice.choice(("bf16", "fp8-scaled"))
    return (f"  {role}:\n    gpu: {{name: cpu, memory: 64 MiB}}\n    kv: {kv}\n"
            f"    page_tokens: {page}\n    memory: {{fraction: 0.5, pages: {pages}}}\n"
            f"    scheduler: {{{', '.join(keys)}}}\n    guard: {{{draw_guard(dice, role)}}}\n")


def draw(seed):
    dice = random.Random(seed)
    page = 16
    text = f"model: fault-gqa\nengine: {dice.choice(('sglang', 'vllm'))}\nfleet:\n"
    if dice.random() < 0.6:
        text += draw_role(dice, "prefill", page) + draw_role(dice, "decode", page)
        text += (f"  link: {{bandwidth: {dice.choice((2, 4, 20))} MB/s, latency: "
                 f"{dice.choice(('10 us', '1 ms'))}, stream: "
                 f"{dice.choice(('whole', 'by-chunk', 'by-layer'))}}}\n")
    else:
        text += draw_role(dice, "serve", page)
    prefixes = dice.choice((0, 16, 64))
    low = prefixes + dice.randint(1, 30)
    text += (f"workload:\n  open: {{rate: {dice.choice((40, 150, 300))} req/s, requests: "
             f"{dice.randint(8, 24)}, input: {{uniform: {{min: {low}, max: {low + 40}}}}},\n"
             f"         output: {{uniform: {{min: 4, max: {dice.randint(8, 40)}}}}}"
             + (f", prefixes: {{groups: 2, tokens: {prefixes}, share: 0.8}}" if prefixes else "")
             + "}\n")
    if dice.random() < 0.5:
        text += f"  aborts: {{share: 0.3, after: {dice.choice((5, 20, 60))} ms}}\n"
    return (text + f"run: {{seed: {seed}}}\n"
            f"faults: {{trials: 2, everywhere: {dice.choice(('true', 'false'))}, kinds: [{KINDS}]}}\n")


def run(kvtwin, seed):
    """Trials, those that agree, and what to say of the others."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{seed}.yaml"
    path.write_text(draw(seed), encoding="utf-8")
    command = [kvtwin, "inject", str(path), "--backend", "cpu", "--format", "json", "-q"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if ran.returncode not in (0, 1) or not ran.stdout: # no matrix: it could not be run as it stands
        return 1, 0, [f"exit {ran.returncode}: {ran.stderr.strip()}"]
    told = json.loads(ran.stdout)
    lines = [f"{d['fault']}/{d['variant']} at {d['at_s']:.6f} s: simulated {d['simulated']}"
             f"{' exposed' * d['simulated_exposed']}, real {d['real']}{' exposed' * d['real_exposed']}"
             for d in told["disagreements"]]
    if told["same_tenants"] != told["trials"]:
        lines.append(f"tenants differ in {told['trials'] - told['same_tenants']} trials")
    if not lines:
        path.unlink()
    return told["trials"], told["agree"], lines


def main(kvtwin, seed, count):
    seed, count, trials, agree, wrong = int(seed, 0), int(count), 0, 0, 0
    for world in range(seed, seed + count):
        ran, same, lines = run(kvtwin, world)
        trials, agree, wrong = trials + ran, agree + same, wrong + bool(lines)
        for line in lines:
            print(f"world {world}: {line}; again: {sys.argv[0]} {kvtwin} {world} 1", flush=True)
    print(f"worlds_real: {agree} of {trials} trials of {count} worlds agree, {wrong} worlds wrong")
    sys.exit(1 if wrong > 0 or trials == 0 else 0)


main(*sys.argv[1:])
