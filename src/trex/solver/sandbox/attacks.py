"""Programs that try to get out, to forge results or to take more than their share, and what must become of them.

The sandbox is tried with them by its tests and by the chapter's notebook.

Each program ends by `raise SystemExit("...")` where it got what it wanted. `status` is what the caller must see: one of
the statuses named, "ok" where the attempt failed inside of the program and the program went on.
"""
# ruff: noqa: E501  # programs are lines as they are

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Attack:
    """A program, and the statuses that mean it was stopped.

    PORT in `code` stands for a port of the host on which somebody listens, HOSTFILE for a file of the host.
    """

    name: str
    code: str
    status: tuple[str, ...] = ("ok",)
    group: str = ""

    def program(self, port: int, host_file: str) -> str:
        """The program, aimed at a port and a file of this host."""
        return f"HOSTFILE = {host_file!r}\n" + self.code.replace("PORT", str(port))


def refused(attempt: str, error: str = "OSError") -> str:
    """A program that fails unless every line of `attempt` raises an error."""
    lines = attempt.strip().splitlines()
    return "import os, signal, socket, ctypes\n" + "\n".join(
        f"try:\n    {line}\nexcept {error}:\n    pass\nelse:\n    raise SystemExit({line!r} + ' worked')"
        for line in lines
    )


LIBC = "libc = ctypes.CDLL(None, use_errno=True)\n"


def refused_call(*calls: str) -> str:
    """A program that fails unless every call into the C library returns a negative number."""
    return (
        "import ctypes, os\n"
        + LIBC
        + "\n".join(f"if {call} >= 0: raise SystemExit({call!r} + ' worked')" for call in calls)
    )


SPAWN = """
import os, time
for k in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open('alive', 'w').close()
            time.sleep(600)
        os._exit(0)
time.sleep(0.2)
"""

_GROUPS = {
    "files of the host": (
    Attack("host files", refused("open('/etc/passwd')\nopen('/etc/shadow')\nopen(HOSTFILE)\nopen('/var/log/dpkg.log')\n"
                                 "os.listdir('/home')\nos.listdir('/etc/ssl')\nos.listdir(os.path.dirname(HOSTFILE))")),
    Attack("labels of the package", "import trex, os, pathlib\nroot = pathlib.Path(trex.__file__).parent\n"
                                    "for part in ('eval', 'published', 'data'):\n    for name in ('__init__.py', 'labels.yaml'):\n"
                                    "        try: open(root / part / name)\n        except OSError: continue\n        raise SystemExit(name)\n"
                                    "    try: os.listdir(root / part)\n    except OSError: continue\n    raise SystemExit(part)"),
    Attack("write outside", refused("open('/planted', 'w')\nopen('/usr/planted', 'w')\nopen('/dev/planted', 'w')\n"
                                    "open(os.__file__, 'a')\nopen('/proc/planted', 'w')")),
    Attack("change a module", refused("import trex.solver.wire as w; open(w.__file__, 'a')\nos.remove(os.__file__)\n"
                                      "os.chmod(os.__file__, 0o777)\nos.utime(os.__file__)\nos.truncate(os.__file__, 0)")),
    Attack("symlinks out", "import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/', 'root')\n"
                           + refused("open('link')\nopen('root/etc/passwd')\nos.listdir('root/home')\nopen('../../etc/passwd')")),
    Attack("hard link to a host file", refused("os.link('/etc/passwd', 'hard')\nos.link(os.__file__, 'hard')")),
    Attack("device nodes", refused("os.mknod('disk', 0o600 | 0o060000, os.makedev(8, 0))\nos.open('/dev/mem', os.O_RDONLY)\n"
                                   "os.open('/dev/kmsg', os.O_RDONLY)\nos.open('/dev/tty', os.O_RDWR)")),
    ),
    "what the caller knows": (
    Attack("environment", "import os\nif any(w in k.upper() for k in os.environ for w in ('KEY', 'TOKEN', 'SECRET', 'USER', 'SSH')):"
                          " raise SystemExit(dict(os.environ))"),
    Attack("/proc", refused("open('/proc/1/environ').read()\nopen('/proc/self/mem', 'r+b')\nopen(f'/proc/{os.getppid()}/mem')\n"
                            "os.listdir('/proc/1/fd')\nopen('/proc/self/maps')\nopen('/proc/cpuinfo')\nos.listdir('/sys')",
                            "OSError")),
    Attack("open descriptors", "import os\nfor d in range(4, 4096):\n    try: os.fstat(d)\n    except OSError: continue\n"
                               "    raise SystemExit(f'descriptor {d} is open')"),
    ),
    "other processes": (
    Attack("ptrace", refused_call("libc.ptrace(16, os.getppid(), 0, 0)", "libc.ptrace(0, 0, 0, 0)",
                                  "libc.process_vm_readv(os.getppid(), None, 0, None, 0, 0)")),
    Attack("signals to others", "import os\ndef all_of_them():\n    for p in range(1, 4000):\n        if p != os.getpid():\n"
                                "            for s in (15, 9):\n                try: os.kill(p, s)\n"
                                "                except OSError: pass\nall_of_them()\n"
                                "try: os.kill(os.getppid(), 9)\nexcept OSError: pass"),
    Attack("signal to all", "import os, signal\nsignal.signal(15, signal.SIG_IGN)\ntry: os.kill(-1, 15)\nexcept OSError: pass"),
    Attack("signal to the group", "import os, signal\nsignal.signal(15, signal.SIG_IGN)\n"
                                  "try: os.killpg(os.getpgid(0), 15)\nexcept OSError: pass", ("ok", "killed")),
    Attack("pidfd", refused("os.pidfd_open(os.getppid())\nos.pidfd_open(1)")),
    Attack("priority and limits of others", refused("os.setpriority(os.PRIO_PROCESS, 0, -10)\n"
                                                    "__import__('resource').setrlimit(__import__('resource').RLIMIT_AS, (-1, -1))",
                                                    "(OSError, ValueError)")),
    Attack("signal to its own group, to stop", "import os, signal\nos.kill(0, signal.SIGSTOP)", ("timeout", "error")),
    Attack("signal to its own group, to end", "import os\nos.kill(0, 9)", ("killed", "error")),
    Attack("a signal without name", "import os\nos.kill(os.getpid(), 40)", ("killed",)),
    Attack("interprocess communication", refused_call("libc.shmat(0, None, 0)", "libc.shmget(1, 4096, 0o1600)", "libc.semget(1, 1, 0o1600)", "libc.msgget(1, 0o1600)")),
    ),
    "network": (
    Attack("network", refused("socket.socket()\nsocket.create_connection(('127.0.0.1', PORT), 2)\n"
                              "socket.socket(socket.AF_UNIX)\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW)\n"
                              "socket.getaddrinfo('localhost', 80) and socket.socket(socket.AF_INET, socket.SOCK_DGRAM)")),
    ),
    "the kernel": (
    Attack("namespaces", refused_call("libc.unshare(0x10000000)", "libc.unshare(0x20000)", "libc.setns(0, 0)",
                                      "libc.syscall(56, 0x10000011, 0, 0, 0, 0)")),
    Attack("mounts", refused_call("libc.mount(b'tmpfs', b'/job', b'tmpfs', 0, None)", "libc.umount2(b'/proc', 2)",
                                  "libc.umount2(b'/job', 2)", "libc.chroot(b'/job')", "libc.pivot_root(b'/', b'/')")),
    Attack("other programs", refused("os.execv('/usr/bin/env', ['env'])\nos.execv('/proc/self/exe', ['x'])\n"
                                     "__import__('subprocess').run([__import__('sys').executable, '-c', 'print(1)'])\n"
                                     "__import__('subprocess').run('ls', shell=True)")),
    Attack("kernel interfaces", refused_call("libc.syscall(321, 0, 0, 0)", "libc.syscall(298, 0, 0, -1, -1, 0)",
                                             "libc.syscall(425, 8, 0)", "libc.syscall(323, 0)", "libc.syscall(250, 0, -3)",
                                             "libc.syscall(304, 0, 0, 0)")),
    Attack("32-bit and x32 calls", refused_call("libc.syscall(0x40000000 + 41, 2, 1, 0)", "libc.syscall(0x40000000 + 101, 16, 1)")),
    Attack("another user", refused("os.setuid(0)\nos.setgid(0)\nos.setgroups([0])\nos.chown('.', 0, 0)")),
    Attack("a capability back", refused_call("libc.prctl(47, 2, 21, 0, 0)")),
    ),
    "more than its share": (
    Attack("memory", "b = bytearray(6 * 2**30)", ("memory",)),
    Attack("memory in many processes", "import os, time\nfor k in range(30):\n    if os.fork() == 0:\n"
                                       "        b = bytearray(b'x') * (200 * 2**20)\n        time.sleep(60)\ntime.sleep(60)",
           ("memory", "killed")),
    Attack("memory that no process maps", refused("os.memfd_create('x')") + "\n" + LIBC
           + "if libc.shmget(0, 2**30, 0o1600) >= 0: raise SystemExit('shared memory')"),
    Attack("shared memory in many processes", "import mmap, os, time\nfor k in range(6):\n    if os.fork() == 0:\n        m = mmap.mmap(-1, 500 * 2**20)\n        for o in range(0, len(m), 4096): m[o] = 1\n        time.sleep(60)\ntime.sleep(60)", ("memory", "killed")),
    Attack("memory of processes whose first thread has ended", "import ctypes, os, threading, time\ndef hold():\n    b = bytearray(b'x') * (500 * 2**20)\n    time.sleep(60)\nfor k in range(6):\n    if os.fork() == 0:\n        threading.Thread(target=hold).start()\n        ctypes.CDLL(None).syscall(60, 0)\ntime.sleep(60)", ("memory", "killed")),
    Attack("memory of orphans", "import os, time\nfor k in range(6):\n    if os.fork() == 0:\n        if os.fork() == 0:\n            b = bytearray(b'x') * (500 * 2**20)\n            time.sleep(60)\n        os._exit(0)\ntime.sleep(60)", ("memory", "killed")),
    Attack("socket buffers", refused("socket.socketpair()")),
    Attack("fork bomb", "import os\nwhile True: os.fork()", ("error", "killed", "timeout")),
    Attack("fork bomb that ignores errors", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
           ("timeout", "killed", "memory")),
    Attack("threads", "import threading, time\nfor k in range(1000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
           ("error",)),
    Attack("disk", "with open('big', 'wb') as f:\n    while True: f.write(b'x' * 2**20)", ("error", "killed")),
    Attack("disk in many files", "k = 0\nwhile True:\n    k += 1\n    with open(f'f{k}', 'wb') as f: f.write(b'x' * 2**20)", ("error", "killed")),
    Attack("disk in files without a name", "import os, time\nkept = []\nfor k in range(200):\n    f = open('x', 'wb'); kept.append(f); os.remove('x')\n    f.write(b'x' * 2**20); f.flush()\ntime.sleep(2)", ("error", "killed")),
    Attack("deep folders", "import os, time\nfor k in range(3000):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\ntime.sleep(2)", ("error", "killed")),
    Attack("many deep folders", "import os\nfor k in range(1100):\n    os.mkdir('d'); os.chdir('d')\nwhile True: pass", ("error", "killed", "timeout")),
    Attack("a folder closed to its owner", "import os\nos.mkdir('d'); open('d/x', 'w').close(); os.chmod('d', 0); os.chmod('.', 0)", ("ok", "killed", "error")),
    Attack("inodes", "import time\nk = 0\nwhile True:\n    k += 1\n    open(f'f{k}', 'w').close()\n    if k > 20000: time.sleep(5)",
           ("error", "killed")),
    Attack("descriptors", "import os\nl = []\nwhile True: l.append(os.open('/dev/null', 0))", ("error",)),
    Attack("pipes full of data", "import os\nl = []\nwhile True:\n    r, w = os.pipe(); os.set_blocking(w, False); os.write(w, b'x' * 2**16); l += [r, w]",
           ("error",)),
    Attack("flood", "while True: print('x' * 10000)", ("output",)),
    Attack("flood on standard error", "import sys\nwhile True: sys.stderr.write('x' * 10000)", ("output",)),
    Attack("flood past Python", "import os\nwhile True: os.write(1, b'x' * 100000)", ("output",)),
    Attack("endless loop", "while True: pass", ("timeout",)),
    Attack("endless sleep, signals ignored", "import signal, time\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
           "    except OSError: pass\nwhile True:\n    try: time.sleep(100)\n    except BaseException: pass", ("timeout",)),
    Attack("endless in C", "import ctypes\nctypes.CDLL(None).pause()", ("timeout",)),
    Attack("closed outputs", "import os, time\nfor d in range(64):\n    try: os.close(d)\n    except OSError: pass\ntime.sleep(600)", ("timeout",)),
    Attack("children of their own session", SPAWN),
    Attack("deep recursion in C", "import ctypes\nctypes.string_at(0)", ("killed",)),
    Attack("recursion", "def f(): f()\nf()", ("error",)),
    Attack("a crash", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", ("killed",)),
    Attack("abort", "import os\nos.abort()", ("killed",)),
    Attack("an error that cannot be shown", "class E(Exception):\n    def __str__(self): raise E\nraise E", ("error",)),
    Attack("a name with lone surrogates", "raise ValueError('\\udcff')", ("error",)),
    ),
}  # fmt: skip
ATTACKS = tuple(replace(attack, group=group) for group, attacks in _GROUPS.items() for attack in attacks)


# programs that say something of a result which no model has
FORGERIES = {
    "printed": "import sys\nprint('{\"status\": 2, \"optimal_value\": 42.0, \"status_name\": \"OPTIMAL\"}')\nsys.exit(0)",
    "over every descriptor": "import os, json, struct\nbody = json.dumps({'status': 'ok', 'claimed': 42.0, 'objective': 42.0}).encode()\n"
    "for d in range(64):\n    for data in (body, struct.pack('>Q', len(body)) + body, b'ready', struct.pack('>i', 0)):\n"
    "        try: os.write(d, data)\n        except OSError: pass\nos._exit(0)",
    "the server's own message": "import os, struct\nbody = b'C42.0'\nos.write(3, struct.pack('>Q', len(body)) + body)\n"
    "body = b'M{\"how\": \"solved\", \"value\": 42}\\n{}'\nos.write(3, struct.pack('>Q', len(body)) + body)\nos._exit(0)",
    "a message that never ends": "import os, struct\nos.write(3, struct.pack('>Q', 2**62) + b'M')",
    "deep JSON": "import os, struct\nbody = b'M{\"how\": \"solved\"}\\n' + b'[' * 10**6\nos.write(3, struct.pack('>Q', len(body)) + body)",
    "an object that looks solved": "class M:\n    status = Status = 2\n    objVal = ObjVal = 42.0\n    def optimize(self): pass\n"
    "    def write(self, path): open(path, 'w').write('x')\nmodel = m = M()\nmodel.optimize()",
    "a patched solver": "import pyomo.environ as pyo\nclass R: pass\nclass S:\n    def __init__(self, *a): pass\n"
    "    def solve(self, model, **k): return R()\npyo.SolverFactory = S\npyo.SolverFactory('highs').solve(None)\nprint(42.0)",
    "a claim of many digits": "import os, struct\nbody = b'C1' + b'0' * 400\nos.write(3, struct.pack('>Q', len(body)) + body)",
    "messages without end": "import os, struct\nbody = b'E' + b'x' * 2**24\nfor k in range(20): os.write(3, struct.pack('>Q', len(body)) + body)",
    "numbers of one hash": "import os, struct, json\nkeys = [[0, k * (2**61 - 1), 1.0] for k in range(100000)]\n"
    "m = dict(sense='min', offset=0.0, variables=['x'], kinds=['continuous'], cost=[1.0], lower=[42.0], upper=[42.0], rows=[],"
    " row_lower=[], row_upper=[], start=[0], index=[], value=[], quadratic=keys, quadratic_rows=[], sos=[], indicators=[], functions=[])\n"
    "body = b'M{\"how\": \"solved\"}\\n' + json.dumps(m).encode()\nos.write(3, struct.pack('>Q', len(body)) + body)",
    "the sandbox's own exit statuses": "import os\nos._exit(67)",
    "a model that is none": "import pyomo.environ as pyo\nm = pyo.ConcreteModel()\n",
}  # fmt: skip

# programs that solve, write or build the model max 3 x, x <= 4
BUILD = """
import pyomo.environ as pyo
m = pyo.ConcreteModel()
m.x = pyo.Var(bounds=(0, 4))
m.o = pyo.Objective(expr=3 * m.x, sense=pyo.maximize)
"""
SOLVE = "pyo.SolverFactory('highs').solve(m)\n"
PROGRAMS = {
    "any name": BUILD.replace("m ", "problem ").replace("m.", "problem.").replace("(m)", "(problem)")
    + "pyo.SolverFactory('highs').solve(problem)",
    "in a function": "def f():\n" + "".join(f"    {line}\n" for line in (BUILD + SOLVE).splitlines()) + "f()",
    "appsi": BUILD + "pyo.SolverFactory('appsi_highs').solve(m)",
    "appsi itself": BUILD + "from pyomo.contrib.appsi.solvers import Highs\nHighs().solve(m)",
    "new interface": BUILD + "from pyomo.contrib.solver.solvers.highs import Highs\nHighs().solve(m)",
    "persistent": BUILD + "s = pyo.SolverFactory('appsi_highs')\ns.solve(m)",
    "not solved": BUILD,
    "not solved, in a function": "def f():\n" + "".join(f"    {line}\n" for line in BUILD.splitlines()) + "f()",
    "written": BUILD + "m.write('model.lp')",
    "abstract": "import pyomo.environ as pyo\na = pyo.AbstractModel()\na.x = pyo.Var(bounds=(0, 4))\n"
    "a.o = pyo.Objective(expr=3 * a.x, sense=pyo.maximize)\nm = a.create_instance()\npyo.SolverFactory('highs').solve(m)",
    "highspy": "import highspy\nh = highspy.Highs()\nx = h.addVariable(lb=0, ub=4)\nh.maximize(3 * x)",
    "highspy, run": "import highspy\nh = highspy.Highs()\nh.addVar(0, 4)\nh.changeColCost(0, 3)\n"
    "h.changeObjectiveSense(highspy.ObjSense.kMaximize)\nh.run()",
    "highspy, not run": "import highspy\nh = highspy.Highs()\nx = h.addVariable(lb=0, ub=4)\nh.setMaximize()\nh.setObjective(3 * x)",
    "killed after solving": BUILD + SOLVE + "import os\nos._exit(0)",
    "main guard": "def main():\n" + "".join(f"    {line}\n" for line in (BUILD + SOLVE).splitlines())
    + "if __name__ == '__main__':\n    main()",
    "from a file": "import json\nd = json.load(open('./data.json'))\n" + BUILD.replace("4)", "d['u'])") + SOLVE,
    "from a file by its folder": "import json, os\nd = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'data.json')))\n"
    + BUILD.replace("4)", "d['u'])") + SOLVE,
    "much output": "print('x' * 3000000)\n" + BUILD + SOLVE,
    "files are written": "open('planted', 'w').write('x')\nimport tempfile\ntempfile.mkdtemp()\n" + BUILD + SOLVE,
    "in a thread": BUILD + "import threading\nthreading.Thread(target=lambda: pyo.SolverFactory('highs').solve(m)).start()",
    "at exit": BUILD + "import atexit\natexit.register(lambda: pyo.SolverFactory('highs').solve(m))",
    "with multiprocessing": "import multiprocessing\nimport multiprocessing.pool\n" + BUILD + SOLVE,
}  # fmt: skip


@contextmanager
def listener() -> Iterator[tuple[int, list[Any]]]:
    """A port of this host's loopback on which somebody listens, and the connections that were seen there."""
    seen: list[Any] = []
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)

        def accept() -> None:
            while not stop.is_set():
                try:
                    connection, who = server.accept()
                except TimeoutError:
                    continue
                seen.append(who)
                connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server.getsockname()[1], seen
        finally:
            stop.set()
            thread.join()
