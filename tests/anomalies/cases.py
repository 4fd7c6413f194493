"""The commands that are broken, and the inputs that they need."""

import json
import re
import shlex
import subprocess

QUICKSTART = "configs/examples/quickstart.yaml"


class Case:
    """A command that writes. `$` in its arguments is the folder of its outputs, @ that of inputs."""

    def __init__(self, name, arguments, files, journals=False, samples=6, memory=True):
        self.name = name
        self.arguments = shlex.split(arguments)
        self.files = files
        self.journals = journals  # may be left where it failed: the same command goes on
        self.memory = memory  # its allocations fail too; else tests/test_scarce.c does it
        self.samples = samples  # of each kind of call in the short form; runs are of unequal length


CASES = [
    Case(
        "simulate",
        f"simulate {QUICKSTART} -q --set workload.trace=@/two.csv -o $/run.h5 --decisions "
        "--log $/log.txt --perfetto $/trace.json --export vllm:$/vllm.json "
        "--export sglang:$/sglang.jsonl --export llm-d:$/llm-d.yaml",
        ["run.h5", "log.txt", "trace.json", "vllm.json", "sglang.jsonl", "llm-d.yaml"],
    ),
    Case(
        "sweep",
        "sweep configs/examples/sweep.yaml -q --threads 1 -o $/sweep.h5 --set fleet.serve.gpu=l40s "
        "--set fleet.serve.scheduler.batch_tokens=512 --set workload.closed.requests=8 "
        "--set 'workload.closed.concurrency={choices: [1, 2]}'",
        ["sweep.h5"],
        journals=True,
    ),
    Case(
        "inject",
        "inject configs/examples/faults.yaml --trials 2 -q -o $/faults.h5 --set 'run.until=20 s' "
        "--set fleet.decode.guard=fifo --set 'faults.from=5 s' --set 'faults.until=15 s' "
        "--set 'faults.kinds=[leak, stale-reader]'",
        ["faults.h5"],
        journals=True,
    ),
    Case(
        "plan",
        "plan configs/examples/plan-split.yaml -q -o $/plan.h5 --set plan.resamples=2 "
        "--set workload.open.requests=8",
        ["plan.h5"],
        samples=3,
    ),
    Case("report", "report @/run.h5 -o $/page.html", ["page.html"]),
    Case("report-svg", "report @/run.h5 --svg $", None),
    Case("report-sweep", "report @/sweep.h5 -o $/page.html", ["page.html"], samples=1),
    Case("report-plan", "report @/plan.h5 -o $/page.html", ["page.html"], samples=1),
    Case("report-beside", "report @/run.h5 --compare @/bench.jsonl -o $/page.html", ["page.html"], samples=1),
    Case(
        "calibrate",
        "calibrate @/own.csv --gpu @/my-cpu.yaml --stack own -q -o $/own.yaml",
        ["own.yaml"],
    ),
    Case(
        "calibrate-serving",
        "calibrate @/bench.jsonl --serving @/server.yaml -q -o $/fitted.yaml",
        ["fitted.yaml"],
        samples=3,
    ),
    Case(
        "trace-generate",
        "trace generate --rate 5 --requests 20 --input-tokens uniform:10:20 "
        "--output-tokens uniform:3:9 -q -o $/load.csv",
        ["load.csv"],
    ),
    Case("trace-import", "trace import @/two.csv -q -o $/two.csv", ["two.csv"]),
    Case("model-import", "model import @/hf.json -q -o $/model.yaml", ["model.yaml"]),
    Case("config", f"config check {QUICKSTART}", []),
    Case("diff", "diff @/run.h5 @/run.h5", []),
    Case("diff-json", "diff @/run.h5 @/run.h5 --format json", [], samples=1),
    Case("simulate-json", f"simulate {QUICKSTART} -q --set workload.trace=@/two.csv --format json --resamples 2",
         [], samples=1),
    Case("capacity-json", f"capacity {QUICKSTART} --format json", [], samples=1),
    Case("validate", "validate tests/runtime/validate-tiny.yaml --short -q", []),
]

# Commands that differ from those above in what they allocate, read and print: for --full and --paths.
MORE = [
    Case("simulate-split", "simulate configs/examples/mooncake-pd.yaml -q --set workload.trace=@/mooncake.jsonl -o $/run.h5 "
         "--decisions --perfetto $/trace.json --log $/log.txt --resamples 2",
         ["run.h5", "trace.json", "log.txt"]),
    Case("incident", "inject configs/incidents/vllm-35219.yaml -q --set 'run.until=30 s' --format json", []),
    Case("splitting", "inject configs/examples/rare.yaml --estimator splitting --trials 20 -q "
         "--set 'run.until=20 s' --format json", []),
    Case("importance", "inject configs/examples/rare.yaml --estimator importance --trials 4 -q "
         "--set 'run.until=20 s'", []),
    Case("inject-real", "inject configs/examples/faults-real.yaml --backend cpu --trials 1 -q "
         "--set 'fleet.decode.guard={choices: [none, {tag-inband: {bits: 32}}]}' "
         "--set 'faults.kinds=[late-write, partial-transfer]'", [], memory=False),
    Case("sweep-faults", "sweep configs/incidents/vllm-35219.yaml -q --set 'run.until=30 s' -o $/sweep.h5",
         ["sweep.h5"], journals=True),
    Case("report-split", "report @/split.h5 -o $/page.html", ["page.html"]),
    Case("capacity", f"capacity {QUICKSTART}", []),
    Case("reproduce", "reproduce kimi-k2.6-fp8-kv --resamples 2 --format json", []),
    Case("reproduce-serving", "reproduce --serving @/serving.csv --fit", []),
    Case("reproduce-capacity", "reproduce --capacity @/capacity.csv", []),
    Case("trace-stats", "trace stats @/mooncake.jsonl", []),
    Case("trace-lengths", "trace generate --rate 5 --requests 9 --input-tokens from:@/two.csv "
         "--output-tokens lognormal:30:90 --prefixes 2:0.5:16 -q -o $/load.csv", ["load.csv"]),
    Case("model-show", "model show kimi-k2.6", []),
    Case("config-print", "simulate configs/examples/mooncake-pd.yaml --print-config", []),
    Case("config-explain", "config explain fleet.decode.guard", []),
    Case("examples", "examples incidents", []),
]

# Runs long enough to be stopped at any of their stages.
SLOW = [
    Case("simulate", f"simulate {QUICKSTART} -q --exact-steps -o $/run.h5 --decisions --log $/log.txt "
         "--perfetto $/trace.json --export vllm:$/vllm.json",
         ["run.h5", "log.txt", "trace.json", "vllm.json"]),
    Case("sweep", "sweep configs/examples/sweep.yaml -q --threads 2 -o $/sweep.h5 --set fleet.serve.gpu=l40s "
         "--set 'workload.closed.concurrency={choices: [8, 32, 128]}' --set workload.closed.requests=256",
         ["sweep.h5"], journals=True),
    Case("inject", "inject configs/examples/faults.yaml --trials 24 -q -o $/faults.h5 --set 'run.until=120 s' "
         "--set 'faults.until=110 s' --set fleet.decode.guard=tag-side "
         "--set 'faults.kinds=[stale-reader, late-write, leak]'",
         ["faults.h5"], journals=True),
]


def prepare(world):
    """The inputs of the cases."""
    write = lambda name, text: open(f"{world.inputs}/{name}", "w").write(text)
    write("two.csv", "arrival_ms,input_tokens,output_tokens\n0,100,3\n5,70,2\n")
    write("mooncake.jsonl", "".join(
        f'{{"timestamp": {n * 1000}, "input_length": 1200, "output_length": 20, "hash_ids": [1, 2, {n + 3}]}}\n'
        for n in range(4)))
    write("serving.csv", "row_id,engine,engine_version,model,gpu,n_gpus,isl_tokens,osl_tokens,concurrency,"
          "num_requests,tpot_ms\na,SGLang,0.5.9,Qwen3-4B,H100,1,100,20,1,3,9\n"
          "b,SGLang,0.5.9,Qwen3-8B,H100,1,100,20,1,3,9\n")
    write("capacity.csv", "row_id,engine,engine_version,model,gpu,gpu_mem_gb_nominal,n_gpus,tp,weight_dtype,"
          "kv_dtype,mem_fraction,page_or_block_tokens,kv_tokens\n"
          "a,SGLang,0.5.9,Qwen3-8B,H100,80,1,1,bf16,bf16,0.85,1,300000\n"
          "b,vLLM,0.11,Qwen3-8B,H100,80,1,1,bf16,bf16,0.9,16,350000\n")
    write("my-cpu.yaml", "name: my-cpu\nmemory-visible: 16 GiB\nbandwidth: 60 GB/s\nbf16: 1 TFLOP/s\n")
    write(
        "hf.json",
        json.dumps(
            {
                "architectures": ["Qwen3ForCausalLM"],
                "model_type": "qwen3",
                "hidden_size": 1024,
                "intermediate_size": 3072,
                "num_hidden_layers": 28,
                "num_attention_heads": 16,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "vocab_size": 151936,
                "max_position_embeddings": 40960,
                "tie_word_embeddings": True,
                "torch_dtype": "bfloat16",
            }
        ),
    )
    rows = [
        "backend,device,family,variant,shape,time_ns,mad_ns,repeats,bytes,flops,gb_per_s,ceiling,"
        "fraction_of_ceiling,status",
        'cpu,"My CPU, 2 threads",read,,mib=512,10000000,1,7,570000000,0,57,57,1,ok',
        'cpu,"My CPU, 2 threads",launch,,threads=2,4000,1,7,0,0,0,0,0,ok',
    ]
    for n in (512, 1024, 2048, 4096):
        for k in (512, 1024, 2048):
            for m in (1, 8, 64):
                count = 2 * n * k + 2 * m * (n + k)
                ns = 8000 + count / 50 + 2 * m * n * k / 600
                rows.append(
                    f'cpu,"My CPU, 2 threads",gemm,bf16,m={m} n={n} k={k},{ns:.0f},1,7,{count},'
                    f"{2 * m * n * k},{count / ns:.4f},57,0.5,ok"
                )
    write("own.csv", "\n".join(rows) + "\n")
    write(
        "server.yaml",
        "model: qwen3-30b-a3b\nengine: sglang\nfleet: {serve: {gpu: h200-sxm, memory: {fraction: 0.85}}}\n",
    )
    results = []
    for load in (1, 8):
        load_text = f"workload={{closed: {{concurrency: {load}, input: 500, output: 60, requests: 64}}}}"
        text = subprocess.run(
            [world.kvtwin, "simulate", f"{world.inputs}/server.yaml", "-q", "--format", "json", "--set", load_text],
            check=True, capture_output=True, text=True,
        ).stdout
        metric = {name: float(re.search(f'"{name}": ([0-9.e+-]+)', text).group(1))
                  for name in ("mean_ttft_ms", "mean_tpot_ms", "output_throughput")}
        results.append(json.dumps({
            "backend": "sglang", "request_rate": float("inf"), "max_concurrency": load, "completed": 64,
            "total_throughput": 1, "total_input_tokens": 32000, "total_output_tokens": 3840, **metric}))
    write("bench.jsonl", "\n".join(results) + "\n")
    for command, config, sets in (
        ("sweep", "sweep", ["fleet.serve.gpu=l40s", "workload.closed.requests=8",
                            "workload.closed.concurrency={choices: [1, 2]}"]),
        ("plan", "plan-split", ["plan.resamples=2", "workload.open.requests=8"]),
    ):
        subprocess.run(
            [world.kvtwin, command, f"configs/examples/{config}.yaml", "-q", "-o", f"{world.inputs}/{command}.h5",
             *(word for text in sets for word in ("--set", text))],
            check=True, capture_output=True,
        )
    for name, trace, config in (("run", "two.csv", QUICKSTART),
                                ("split", "mooncake.jsonl", "configs/examples/mooncake-pd.yaml")):
        subprocess.run(
            [world.kvtwin, "simulate", config, "-q", "--set", f"workload.trace={world.inputs}/{trace}",
             "-o", f"{world.inputs}/{name}.h5", "--decisions"],
            check=True, capture_output=True,
        )
