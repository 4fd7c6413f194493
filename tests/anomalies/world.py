"""Runs of the program in folders of their own, and what is asked of every one."""

import concurrent.futures
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading


class Run:
    """What one run said and left."""

    def __init__(self, code, stdout, stderr, folder):
        self.code, self.stdout, self.stderr, self.folder = code, stdout, stderr, folder

    def left(self):
        return sorted(os.listdir(self.folder))


class World:
    def __init__(self, options):
        self.build = os.path.abspath(options.build)
        self.kvtwin = options.kvtwin
        self.shared = options.shared
        self.full, self.paths = options.full, options.paths
        self.moments = options.moments
        self.random = random.Random(options.seed)
        self.work = tempfile.mkdtemp(prefix="kvtwin-anomalies-")
        self.inputs = f"{self.work}/in"
        os.mkdir(self.inputs)
        self.failures, self.runs = [], 0
        self.lock = threading.Lock()
        self.references, self.said = {}, {}

    def folder(self):
        return tempfile.mkdtemp(dir=self.work)

    def command(self, case, folder, program=None, more=()):
        words = [w.replace("$", folder, 1).replace("@", self.inputs, 1) if w[:1] in "$@" or "$/" in w or "@/" in w
                 else w for w in case.arguments]
        return [program or self.kvtwin, *words, *more]

    def run(self, case, program=None, limit=None, folder=None, more=(), **environment):
        folder = folder or self.folder()
        report = f"{folder}.report"
        env = {**os.environ, "OMP_NUM_THREADS": "1", "KVT_FAIL_REPORT": report, **environment}
        if environment:
            env["LD_PRELOAD"] = f"{self.build}/failing.so"

        def limits():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

        try:
            done = subprocess.run(self.command(case, folder, program, more), env=env, timeout=120,
                                  capture_output=True, text=True, errors="replace", preexec_fn=limits)
            result = Run(done.returncode, done.stdout, done.stderr, folder)
        except subprocess.TimeoutExpired:
            result = Run("timeout", "", "", folder)
        result.calls, result.writes = 0, []
        if os.path.exists(report):
            lines = open(report).read().split("\n")
            result.calls = int(lines[0] or 0)
            result.writes = [tuple(map(int, line.split())) for line in lines[1:] if line]
            os.unlink(report)
        with self.lock:
            self.runs += 1
        return result

    def reference(self, case, **how):
        """The files of an undisturbed run, by name."""
        if case.name not in self.references:
            result = self.run(case, **how)
            if result.code != 0 and case.name != "validate":
                sys.exit(f"tests/anomalies/run.py: {case.name} fails undisturbed: {result.stderr}")
            self.references[case.name] = {
                name: open(f"{result.folder}/{name}", "rb").read() for name in result.left()}
            self.said[case.name] = result.stdout.replace(result.folder, "")
            shutil.rmtree(result.folder)
        return self.references[case.name]

    def fail(self, what, result, why):
        words = result.stderr.strip().split("\n")
        text = f"{what}: {why}: exit {result.code}, left {result.left()}, said: {words[0][:300]}"
        with self.lock:
            self.failures.append(text)
            print(f"tests/anomalies/run.py: {text}", file=sys.stderr, flush=True)

    def judge(self, case, what, result, codes, said=None):
        """Exit code, message, and nothing but whole files under final names."""
        whole = self.reference(case)
        before = len(self.failures)
        if result.code not in codes:
            self.fail(what, result, f"want exit {sorted(codes)}")
        elif result.code not in (0, 1):
            first = result.stderr.split("\n")[0]
            if not first.startswith("kvtwin: ") or len(first) < 16:
                self.fail(what, result, "want a message")
            elif re.search(r": (Success|No such file or directory)$", first):
                self.fail(what, result, "want the reason")
            elif said is not None and not all(re.search(s, result.stderr) for s in said):
                self.fail(what, result, f"want {said}")
        elif result.code == 0:
            for name in whole:
                if name not in result.left():
                    self.fail(what, result, f"exit 0 without {name}")
            if case.name != "validate" and result.stdout.replace(result.folder, "") != self.said[case.name]:
                self.fail(what, result, "exit 0 with another output")
        for name in result.left():
            if name in whole:
                if open(f"{result.folder}/{name}", "rb").read() != whole[name]:
                    self.fail(what, result, f"{name} is not whole")
            elif not (case.journals and result.code != 0 and ".journal" in name):
                self.fail(what, result, f"{name} is left")
        good = len(self.failures) == before
        shutil.rmtree(result.folder)
        return good

    def each(self, jobs):
        """Run jobs (functions) on all cores until three have failed."""
        before = len(self.failures)

        def guarded(job):
            if len(self.failures) < before + 3:
                job()

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in [pool.submit(guarded, job) for job in jobs]:
                done.result()
