"""What libraries, the shell and the interpreter were told."""

STATES = [
    (
        "things_that_registered_themselves_in_libraries",
        r"""
# %%
import abc, codecs, copyreg, atexit, json, numbers, pandas as pd, sys, collections.abc, numpy as np
class Vec:
    def __init__(self, x): self.x = x
    def __len__(self): return 1
collections.abc.Sized.register(Vec)
numbers.Number.register(Vec)
copyreg.pickle(Vec, lambda v: (Vec, (v.x + 0,)))
class Enc(json.JSONEncoder):
    def default(self, o): return {"x": o.x}
class Celsius(float): pass
def celsius(c): return c + 0.5
copyreg.pickle(Celsius, lambda c: (celsius, (float(c),)))
def describe_all(frame): return f"{len(frame)} rows"
pd.DataFrame.describe_all = describe_all
setattr(np.linalg, "twice", lambda x: 2 * x)
json.JSONEncoder.item_separator = "; "
pd.options.display.max_rows = 7
@numbers.Real.register
class Fixed: pass
@pd.api.extensions.register_series_accessor("vec")
class Accessor:
    def __init__(self, series): self.series = series
    def total(self): return self.series.sum()
vec = Vec(4)
series = pd.Series([1, 2])
first = series.vec.total()
old_hook = sys.excepthook
# %% check
ok = [vec.x == 4, json.dumps(vec, cls=Enc) == '{"x": 4}', isinstance(vec, collections.abc.Sized)]
import copy
ok += [isinstance(vec, numbers.Number), series.vec.total() == 3, issubclass(Fixed, numbers.Real), copy.copy(Celsius(2.0)) == 2.5]
ok += [series.to_frame().describe_all() == "2 rows", np.linalg.twice(4) == 8, pd.options.display.max_rows == 7]
ok += [json.JSONEncoder.item_separator == "; "]
OK = all(ok)
""",
    ),
    (
        "what_the_shell_was_told",
        r"""
# %%
from IPython.core.magic import register_line_magic, register_cell_magic, register_line_cell_magic
@register_line_magic
def shout(line): return line.upper() + mark
@register_cell_magic
def twice(line, cell): return cell.strip() * 2
mark = "!"
class Money:
    def __init__(self, v): self.v = v
shell = get_ipython()
shell.display_formatter.formatters["text/plain"].for_type(Money, lambda one, p, cycle: p.text(f"${one.v}{mark}"))
shell.display_formatter.formatters["text/html"].for_type(complex, lambda c: "<i>c</i>")
cells = []
def note(result): cells.append(result.success)
shell.events.register("post_run_cell", note)
money = Money(3)
# %%
%load_ext autoreload
# %%
%autoreload 2
# %%
%config InteractiveShell.ast_node_interactivity = "last_expr_or_assign"
# %% check
mark = "?"
shell = get_ipython()
ok = [shell.run_line_magic("shout", "a") == "A?", shell.run_cell_magic("twice", "", "ab") == "abab"]
ok += [shell.display_formatter.format(money)[0]["text/plain"] == "$3?"]
ok += [shell.display_formatter.formatters["text/html"].type_printers[complex](1j) == "<i>c</i>"]
before = len(cells)
shell.run_cell("1 + 1")
ok += [len(cells) == before + 1, shell.ast_node_interactivity == "last_expr_or_assign", any("autoreload" in it for it in shell.extension_manager.loaded)]
OK = all(ok)
""",
    ),
    (
        "logging_into_streams_of_the_notebook",
        r"""
# %%
import io, logging, logging.handlers, sys, warnings
stream = io.StringIO()
log = logging.getLogger("app.train")
class Short(logging.Formatter):
    def format(self, record): return f"{record.levelname[0]}:{record.getMessage()}"
class Only(logging.Filter):
    def filter(self, record): return "secret" not in record.getMessage()
handler = logging.StreamHandler(stream)
handler.setFormatter(Short())
handler.addFilter(Only())
log.addHandler(handler)
log.setLevel(logging.DEBUG)
log.propagate = False
log.info("one")
kept = logging.handlers.MemoryHandler(10, target=handler, flushLevel=logging.ERROR)
queue_log = logging.getLogger("app.mem")
queue_log.addHandler(kept)
queue_log.propagate = False
queue_log.warning("held")
logging.addLevelName(25, "NOTICE")
adapter = logging.LoggerAdapter(log, {"run": 3})
disabled = logging.getLogger("app.off")
disabled.disabled = True
old_factory = logging.getLogRecordFactory()
# %% check
log.info("two")
log.info("secret three")
queue_log.error("now")
ok = [stream.getvalue() == "I:one\nI:two\nW:held\nE:now\n", log.handlers == [handler], not log.propagate, handler.stream is stream]
ok += [logging.getLevelName(25) == "NOTICE", adapter.extra == {"run": 3}, adapter.logger is log, logging.getLogger("app.off").disabled, log is logging.getLogger("app.train")]
OK = all(ok)
""",
    ),
    (
        "settings_of_the_interpreter",
        r"""
# %%
import gc, logging, sys, tempfile, threading, warnings, decimal, numpy as np, matplotlib, os, socket
gc.disable()
gc.set_threshold(900, 12, 13)
sys.setswitchinterval(0.01)
sys.setrecursionlimit(4321)
sys.tracebacklimit = 5
warnings.formatwarning = lambda *a, **k: "short"
logging.disable(logging.INFO)
np.seterrcall(lambda kind, flag: seen.append(kind))
np.seterr(divide="call")
seen = []
from matplotlib.colors import ListedColormap
matplotlib.colormaps.register(ListedColormap(["red", "blue"], name="mine"))
socket.setdefaulttimeout(12)
os.umask(0o037)
threading.excepthook = lambda args: seen.append("thread")
# %% check
ok = [not gc.isenabled(), gc.get_threshold() == (900, 12, 13), abs(sys.getswitchinterval() - 0.01) < 1e-6, sys.getrecursionlimit() == 4321]
ok += [sys.tracebacklimit == 5, warnings.formatwarning("m", UserWarning, "f", 1) == "short", logging.root.manager.disable == logging.INFO]
np.array([1.0]) / 0
ok += [bool(seen), "mine" in matplotlib.colormaps, socket.getdefaulttimeout() == 12, os.umask(0o037) == 0o037]
t = threading.Thread(target=lambda: 1 / 0)
t.start()
t.join()
ok += ["thread" in seen]
OK = all(ok)
""",
    ),
]
