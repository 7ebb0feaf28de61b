"""What was changed inside the generators since they were imported."""

import builtins
import functools
import importlib
import inspect
import pkgutil
import sys
import textwrap
import threading
import types

import pytest
from recorded_units import make, waits

from kcl.errors import UnknownInput
from kcl.frontends.loopy import insides, making, unmade

loopy = importlib.import_module("loopy")
c = importlib.import_module("loopy.target.c")
creation = importlib.import_module("loopy.kernel.creation")
parser = importlib.import_module("pymbolic.parser")
pytools = importlib.import_module("pytools")


def changed():
    """Return the names that differ from what the imports gave, without what other tests left."""
    return {f"{holder}.{name}" for holder, name in insides.now().keys() - BEFORE.keys()}


BEFORE = dict(insides.now())
REMOVED = object()


def cell_of(function):
    """Return a cell of a decorated function that holds a function."""
    while getattr(function, "__closure__", None) is None:
        function = function.__wrapped__
    return next(cell for cell in function.__closure__ if callable(cell.cell_contents))


def emit(self, *arguments):
    return self, arguments


# An import that another thread begins, and that goes on once it is told.
SLOW = """
import importlib, json, os, sys, threading
import kcl.loopy
from importlib.machinery import ModuleSpec
began, goes_on = threading.Event(), threading.Event()
class Slow:
    __module__ = "importlib"  # a loader of the program would count as a change
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == "genpy.slow" else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        began.set()
        goes_on.wait(60)
sys.meta_path.append(Slow())
loopy = importlib.import_module("loopy")
"""


class TestNow:
    def test_while_another_thread_imports(self, child):
        """What the program changed before the import of another thread stays a change; a forked child has no import."""
        code = """
            from kcl.frontends.loopy import generators, moment
            from kcl.errors import UnknownInput
            moment.now()
            loopy.add_dtypes = print
            thread = threading.Thread(target=importlib.import_module, args=("genpy.slow",))
            thread.start()
            found = [began.wait(60), generators.is_under_way()]
            try:
                moment.now()
            except UnknownInput as error:
                found.append("add_dtypes was changed" in str(error))
            pid = os.fork()
            if not pid:
                os._exit(generators.is_under_way())
            found.append(os.waitpid(pid, 0)[1])
            goes_on.set()
            thread.join()
            print(json.dumps(found))
            """
        assert child.json(SLOW + textwrap.dedent(code)) == [True, True, True, 0]

    @pytest.mark.parametrize(
        ("unheard", "before", "names"),
        [
            (
                "name.partition('.')[0] == 'pymbolic'",
                "import pymbolic.mapper.distributor; pymbolic.flattened_sum = lambda _: 0",
                ["flattened_sum"],
            ),
            ("name == 'loopy'", "", []),
        ],
    )
    def test_imports_that_nobody_hears(self, child, unheard, before, names):
        """What a program put into a generator that another finder found is a change; loopy counts from then on."""
        code = f"""
            import importlib, json, sys
            import kcl.loopy
            from importlib.machinery import PathFinder
            class InFront:
                def find_spec(self, name, path=None, target=None):
                    return PathFinder.find_spec(name, path) if {unheard} else None
            importlib.import_module("islpy")
            sys.meta_path.insert(0, InFront())
            {before}
            loopy = importlib.import_module("loopy")
            from kcl.frontends.loopy import insides
            found = [[name for _holder, name in insides.now()]]
            loopy.auto = 5
            found.append([name for _holder, name in insides.now()])
            print(json.dumps(found))
            """
        assert child.json(code) == [names, [*names, "auto"]]

    @pytest.mark.parametrize(
        ("holder", "name", "value"),
        [
            (c.CASTBuilder, "emit_if", emit),
            (c.CASTBuilder, "kcl_added", emit),
            (c.CASTBuilder, "emit_if", property(emit)),
            (c.CASTBuilder, "__call__", emit),
            (c, "kcl_added", 5),
            (c, "CASTBuilder", type("Mine", (c.CASTBuilder,), {})),
            (loopy, "_DEFAULT_TARGET", loopy.CTarget),
            (c, "np", types.ModuleType("numpy")),
            (loopy.PyOpenCLTarget, "device_program_name_suffix", "_mine"),
            (parser.Parser, "lex_table", []),
            (creation, "parse_instructions", functools.partial(emit, 1)),
            (creation.parse_instructions, "__code__", emit.__code__),
            (creation.parse_instructions, "__defaults__", (5,)),
            (creation.parse_instructions, "__kwdefaults__", {"mine": 5}),
            (types.FunctionType(emit.__code__, vars(c)), "__code__", changed.__code__),
            (cell_of(loopy.split_iname), "cell_contents", emit),
            (pytools, "flatten", emit),
            (importlib.import_module("islpy").BasicSet, "read_from_str", staticmethod(emit)),
            (importlib.import_module("constantdict").constantdict, "__getitem__", emit),
            (c.CFamilyASTBuilder, "emit_if", REMOVED),
            (builtins, "repr", functools.partial(repr)),
            (builtins, "frozenset", type("frozenset", (frozenset,), {})),
        ],
    )
    def test_a_value(self, monkeypatch, holder, name, value):
        """A replaced, added or removed attribute of a class, module or function is a change, until it is as before."""
        with monkeypatch.context() as patch:
            if value is REMOVED:
                patch.delattr(holder, name)
            else:
                patch.setattr(holder, name, value, raising=False)
            assert {one.rpartition(".")[2] for one in changed()} == {name}
        assert not changed()

    def test_builtins_that_decide_nothing(self, monkeypatch):
        """A program may add a builtin, and replace those by which it talks to somebody."""
        for name in ("print", "input", "breakpoint", "open", "exit", "_", "kcl_added"):
            monkeypatch.setattr(builtins, name, emit, raising=False)
        assert not changed()

    @pytest.mark.parametrize(
        ("first", "value"),
        [
            ("import loopy", "lambda *given, **more: own(*given, **more)"),
            ("", "lambda *given, **more: own(*given, **more)"),
            ("import functools", "functools.partial(own)"),
            ("import functools", "functools.update_wrapper(functools.partial(own), own)"),
            ("import math", "math.fsum"),
        ],
        ids=["function", "before loopy", "partial", "named", "library"],
    )
    def test_early_builtins(self, child, first, value):
        """A builtin that the program replaced before kcl came is a change, and stays one, whosever the other one is."""
        code = f"""
            import builtins, json
            {first}
            own = builtins.sum
            mine = {value}
            import numpy
            builtins.sum = mine
            builtins._ = builtins.sum
            import kcl.loopy
            import loopy
            from kcl.frontends.loopy import insides
            found = [[*map(list, insides.now())]]
            builtins.sum = own
            print(json.dumps([*found, [*map(list, insides.now())]]))
            """
        assert child.json(code) == [[["builtins", "sum"]]] * 2

    def test_builtins_at_an_import(self, monkeypatch):
        """So it is if the first that kcl sees is the end of an import."""
        state = insides.TakenGenerators()
        monkeypatch.setattr(insides, "_state", lambda: state)
        monkeypatch.setattr(builtins, "sorted", lambda *given, own=sorted: own(*given))
        insides._take()
        assert ("builtins", "sorted") in insides._changes()

    def test_names_of_functions(self, monkeypatch):
        """A function is named by its module, also one that stands in no module and in no class."""
        inner = types.FunctionType(emit.__code__, vars(c))
        monkeypatch.setattr(inner, "__code__", changed.__code__)
        monkeypatch.setattr(creation.parse_instructions, "__code__", emit.__code__)
        functions = "loopy.target.c.emit", "loopy.kernel.creation.parse_instructions"
        assert changed() == {f"{function}.__code__" for function in functions}

    def test_an_equal_value(self):
        """A constant that is replaced by an equal one of its type is no change; its sign counts."""
        holder = insides.Holder("mine", {"a": 10**9, "b": 0.0})
        holder.thing |= {"a": int("1000000000"), "b": -0.0}
        names = [
            one for one, now in holder.differing().items() if insides._counts(holder, one, now)
        ]
        assert names == ["b"]

    def test_tables(self, monkeypatch):
        """Items of dictionaries and lists are changes."""
        with monkeypatch.context() as patch:
            patch.setitem(parser.Parser._COMP_TABLE, parser._less, "<=")
            parser.Parser.lex_table.append(("mine", ()))
            assert len(changed()) == 2
            parser.Parser.lex_table.pop()
        assert not changed()

    def test_deleted_defaults(self):
        """Defaults that are deleted are a change, until they are as before."""
        defaults = (1,)
        function = types.FunctionType(emit.__code__, vars(c), None, defaults)
        del function.__defaults__
        assert changed() == {"loopy.target.c.emit.__defaults__"}
        function.__defaults__ = defaults
        assert not changed()

    @pytest.mark.parametrize(
        ("function", "name"),
        [
            ("pytools.UniqueNameGenerator.add_name", "{}"),
            ("loopy.transform.iname.split_iname", "{}.<cell 0>.cell_contents"),
        ],
    )
    def test_keyword_defaults_in_place(self, monkeypatch, function, name):
        """An item of a function's keyword defaults counts like its other defaults, also if a decorator calls it."""
        below = inspect.unwrap(pkgutil.resolve_name(function))
        monkeypatch.setitem(
            below.__kwdefaults__, key := next(iter(below.__kwdefaults__)), "changed"
        )
        assert changed() == {f"{name.format(function)}.__kwdefaults__.{key}"}
        monkeypatch.undo()
        assert not changed()

    def test_bases(self):
        """Other bases of a class are a change, which a call that waited does without."""
        kind = importlib.import_module("loopy.target.opencl").ExpressionToOpenCLCExpressionMapper
        before = kind.__bases__
        kind.__bases__ = (type("Mixed", before, {}),)
        try:
            assert changed() == {f"loopy.target.opencl.{kind.__name__}.__bases__"}
            with insides.as_imported():
                assert kind.__bases__ == before
            assert kind.__bases__ != before
        finally:
            kind.__bases__ = before
        assert not changed()

    def test_another_dictionary(self):
        """An object that gets another dictionary is changed."""
        before = loopy.set_array_dim_names.__dict__
        loopy.set_array_dim_names.__dict__ = {**before, "some": "value"}
        try:
            assert {one.rpartition(".")[2] for one in changed()} == {"some"}
        finally:
            loopy.set_array_dim_names.__dict__ = before
        assert not changed()

    def test_memos_and_modules(self, monkeypatch):
        """What loopy itself keeps, submodules, and the switch of loopy's disk caches do not count."""
        monkeypatch.setattr(c.CASTBuilder, "fields", {"a"}, raising=False)
        monkeypatch.setattr(c.CASTBuilder, "__slotnames__", [], raising=False)
        below = types.ModuleType("loopy.kcl_module")
        monkeypatch.setitem(sys.modules, "loopy.kcl_module", below)
        monkeypatch.setattr(loopy, "kcl_module", below, raising=False)
        monkeypatch.setattr(loopy, "CACHING_ENABLED", not loopy.CACHING_ENABLED)
        assert not changed()

    @pytest.mark.parametrize(
        "call",
        [
            lambda _: loopy.memoize_on_disk(emit),
            lambda unit: loopy.register_preamble_generators(unit, [emit]),
            lambda unit: loopy.register_symbol_manglers(unit, [emit]),
            lambda unit: loopy.register_callable(unit, "f", loopy.CallableKernel(unit["k"])),
            lambda _: loopy.set_caching_enabled(True),
            lambda _: loopy.CacheMode(False).__enter__(),
            lambda _: loopy.clear_in_mem_caches(),
        ],
    )
    def test_registering(self, monkeypatch, call):
        """A public name of loopy that registers something, or switches its caches, changes nothing inside."""
        monkeypatch.setattr(loopy, "CACHING_ENABLED", loopy.CACHING_ENABLED)
        caches = importlib.import_module("loopy.tools").caches
        before = [*caches]
        call(make(module=loopy, name="k"))
        assert not changed()
        caches[:] = before

    def test_reduction_parsers(self, monkeypatch):
        """A parser of reductions decides code, and is a change."""
        table = importlib.import_module("loopy.library.reduction")
        monkeypatch.setattr(table, "_REDUCTION_OP_PARSERS", [*table._REDUCTION_OP_PARSERS])
        loopy.register_reduction_parser(emit)
        assert changed()

    @pytest.mark.parametrize("first", ["import loopy", "kcl.install()"])
    def test_integrations(self, child, first):
        """What kcl puts in the place of functions, and takes away again, is no change."""
        code = f"""
            import json, pyopencl, kcl
            {first}
            import loopy
            from kcl.frontends.loopy import insides
            found = [len(insides.now())]
            for change in (kcl.install, kcl.uninstall, kcl.uninstall):
                change()
                found.append(len(insides.now()))
            print(json.dumps(found))
            """
        assert child.json(code) == [0, 0, 0, 0]


class TestRefuse:
    REFUSED = """
            from kcl.errors import UnknownInput
            from kcl.frontends.loopy import moment
            def refused():
                try:
                    return moment.now()
                except UnknownInput as error:
                    return str(error)
            refused()
    """

    def test_a_change_is_named(self, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(c.CASTBuilder, "emit_if", emit)
            words = r"loopy\.target\.c\.CASTBuilder\.emit_if was changed in this process"
            with pytest.raises(UnknownInput, match=words):
                insides.refuse()
        insides.refuse()

    def test_another_module(self, monkeypatch):
        """Another module under the name of one of a generator's is a change: functions import it as they run."""
        insides.refuse()
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "loopy.target.c", types.ModuleType("loopy.target.c"))
            with pytest.raises(UnknownInput, match=r"module loopy\.target\.c was replaced"):
                insides.refuse()
            patch.delitem(sys.modules, "loopy.target.c")
            insides.refuse()
        insides.refuse()

    @pytest.mark.parametrize("holder", ["islpy.BasicSet", "constantdict.constantdict"])
    def test_without_loopy(self, child, holder):
        """A change in a generator is refused although loopy itself was not imported."""
        code = f"""
            import kcl.loopy
            import {holder.partition(".")[0]}
            {self.REFUSED}
            {holder}.mine = print
            print(refused())
            """
        assert "mine was changed in this process" in child.run(code).stdout

    def test_a_deaf_python(self, child):
        """Where a hook of the program forbids others, no change of a function is told, and nothing has a key."""
        code = f"""
            import sys
            def forbid(event, _arguments):
                if event == "sys.addaudithook":
                    raise RuntimeError
            sys.addaudithook(forbid)
            import loopy
            {self.REFUSED}
            print(refused())
            """
        assert "this Python tells of no change of a function" in child.run(code).stdout


class TestAsImported:
    def test_a_block(self, monkeypatch):
        """In the block the generators are as their imports left them, and afterwards as before the block."""
        own = c.CASTBuilder.emit_if
        monkeypatch.setattr(c.CASTBuilder, "emit_if", emit)
        monkeypatch.setitem(parser.Parser._COMP_TABLE, parser._less, "<=")
        monkeypatch.setattr(c, "kcl_added", 5, raising=False)
        parse = creation.parse_instructions
        code = parse.__code__
        monkeypatch.setattr(parse, "__code__", emit.__code__)
        later = insides.now()
        with insides.as_imported():
            assert c.CASTBuilder.emit_if is own
            assert parser.Parser._COMP_TABLE[parser._less] == "<"
            assert not hasattr(c, "kcl_added")
            assert parse.__code__ is code
        assert parse.__code__ is emit.__code__
        assert c.CASTBuilder.emit_if is emit
        assert insides.now() == later

    def test_a_change_beside_it(self, monkeypatch):
        """What the program changes meanwhile stays a change, also if a module of a generator is imported then."""
        monkeypatch.setattr(c.CASTBuilder, "emit_if", emit)
        assert len(changed()) == 1
        with insides.as_imported():
            monkeypatch.setattr(c.CASTBuilder, "emit_blank_line", emit)
            insides.note_begin("loopy")
            insides.note_end(["loopy.target"])
            both = changed()
        assert both == changed()
        assert {name.rpartition(".")[2] for name in both} == {"emit_if", "emit_blank_line"}

    def test_an_interrupt_at_its_end(self, monkeypatch):
        """The other changes are put back though an interrupt comes as that begins, and nothing counts as restored then."""
        put, calls = insides._put, []

        def interrupt(*changed):
            calls.append(changed)
            if len(calls) == 1:
                raise KeyboardInterrupt
            put(*changed)

        monkeypatch.setattr(pytools, "flatten", emit)
        monkeypatch.setattr(creation, "parse_instructions", emit)
        with pytest.raises(KeyboardInterrupt), insides.as_imported():
            monkeypatch.setattr(insides, "_put", interrupt)
        assert (pytools.flatten is emit) is not (creation.parse_instructions is emit)
        assert len(changed()) == 1

    def test_another_thread_waits(self, monkeypatch):
        """A thread that would generate with the changes goes on once they are back."""
        monkeypatch.setattr(c.CASTBuilder, "emit_if", emit)
        began, goes_on, order = threading.Event(), threading.Event(), []

        def call():
            with making.alone(), insides.as_imported():
                began.set()
                goes_on.wait(60)
                order.append("call")

        def refuse():
            with pytest.raises(UnknownInput, match="emit_if"):
                insides.refuse()
            order.append("refusal")

        threads = [threading.Thread(target=call), threading.Thread(target=refuse)]
        threads[0].start()
        assert began.wait(60)
        threads[1].start()
        threads[1].join(0.2)  # a thread that does not wait ends now
        goes_on.set()
        for thread in threads:
            thread.join()
        assert order == ["call", "refusal"]

    @pytest.mark.parametrize("module", ["loopy.target.c", "kcl.frontends.loopy.face"])
    def test_beside_another_thread(self, monkeypatch, module):
        """While a thread is in a generator, or on its way there, its changes stay; a call does not wait for it for long."""
        own, began, goes_on = c.CASTBuilder.emit_if, threading.Event(), threading.Event()
        monkeypatch.setattr(c.CASTBuilder, "emit_if", emit)
        monkeypatch.setattr(insides, "_PATIENCE", 0.05)

        names = {"began": began, "goes_on": goes_on, "__name__": module}
        exec("def work():\n    began.set()\n    goes_on.wait(60)", names)
        thread = threading.Thread(target=names["work"])
        thread.start()
        assert began.wait(60)
        with insides.as_imported() as is_whole:
            assert not is_whole
            assert c.CASTBuilder.emit_if is emit
            # Also for a call within the block.
            with insides.as_imported() as is_inner_whole:
                assert not is_inner_whole
        monkeypatch.setattr(insides, "_PATIENCE", 60)
        # Nor does the next call wait again, before something else changes.
        with insides.as_imported() as is_whole:
            assert not is_whole
        monkeypatch.setattr(c, "kcl_added", 5, raising=False)
        threading.Timer(0.2, goes_on.set).start()
        with insides.as_imported() as is_whole:
            assert is_whole
        thread.join()
        with insides.as_imported() as is_whole:
            assert is_whole
            assert c.CASTBuilder.emit_if is own

    def test_with_another_builtin(self, monkeypatch):
        """A builtin stays as it is, since all threads have it."""
        monkeypatch.setattr(builtins, "repr", functools.partial(repr))
        mine = builtins.repr
        with insides.as_imported() as is_whole:
            assert not is_whole
            assert builtins.repr is mine

    def test_a_list_that_grows(self):
        """What is added to a list in the block stays there beside the change."""
        table, before = parser.Parser.lex_table, [*parser.Parser.lex_table]
        try:
            table.append("mine")
            with insides.as_imported():
                assert table == before
                table.append("another")
            assert table == [*before, "mine", "another"]
        finally:
            table[:] = before
        assert not changed()

    def test_a_record(self, monkeypatch):
        """A call that is carried out with changes counts by its content from then on, and not by its record."""
        made = [make(name="beside") for _time in range(2)]
        record = unmade.record_of(made[1])
        monkeypatch.setattr(builtins, "repr", functools.partial(repr))
        assert waits(made[1])
        assert not record.changed()
        making.make(record)
        assert record.changed()

    CODE = """
        from kcl.frontends.loopy import insides
        insides.now()
        own, loopy.add_dtypes = loopy.add_dtypes, print
        known, found = len(insides.now()), []
        """

    def test_while_another_thread_imports(self, child):
        """The call in the block may wait for an import of another thread, which ends; the change stays one."""
        code = """
            def restore():
                began.wait(60)
                with insides.as_imported():
                    goes_on.set()
                    importlib.import_module("genpy.slow")
                    found.extend([loopy.add_dtypes is own, len(insides.now())])
            threads = [
                threading.Thread(target=importlib.import_module, args=("genpy.slow",), daemon=True),
                threading.Thread(target=restore, daemon=True),
            ]
            [thread.start() for thread in threads]
            [thread.join(60) for thread in threads]
            found += [thread.is_alive() for thread in threads]
            print(json.dumps([known, *found, loopy.add_dtypes is print]), flush=True)
            os._exit(0)
            """
        code = SLOW + textwrap.dedent(self.CODE) + textwrap.dedent(code)
        assert child.json(code) == [1, True, 1, False, False, True]

    def test_in_a_forked_child(self, child):
        """A child that another thread forks has the program's change; one that is forked in the block goes on there."""
        code = """
            def forked():
                pid = os.fork()
                if not pid:
                    os._exit((loopy.add_dtypes is print) + 2 * len(insides.now()))
                found.append(os.waitpid(pid, 0)[1] >> 8)
            with insides.as_imported():
                thread = threading.Thread(target=forked)
                thread.start()
                thread.join()
                forked()
            print(json.dumps([known, *found, loopy.add_dtypes is print, len(insides.now())]))
            """
        code = SLOW + textwrap.dedent(self.CODE) + textwrap.dedent(code)
        assert child.json(code) == [1, 3, 2, True, 1]

    def test_partial_of_a_recording_function(self, child):
        """An object of functools over one of kcl's functions is the program's change."""
        code = """
            import functools, importlib, json, kcl
            kcl.install()
            lp = importlib.import_module("loopy")
            lp.split_iname = functools.partial(lp.split_iname, inner_tag="unr")
            from kcl.frontends.loopy import insides
            print(json.dumps([*insides.now()]))
            """
        assert child.json(code) == [["loopy", "split_iname"]]

    def test_word_of_c_code(self, child):
        """A folder with the name that C code gives as the module of its functions changes nothing."""
        (child.directory / "nanobind").mkdir()
        code = """
            import json, loopy, kcl.loopy
            from kcl.frontends.loopy import insides
            print(json.dumps([*insides.now()]))
            """
        assert child.json(code) == []

    def test_moved_compiled_files(self, child):
        """Compiled files have the paths of before; as their own code they change nothing."""
        code = """
            import json, os, shutil, sys, zipfile, pymbolic
            with zipfile.PyZipFile("all.zip", "w") as archive:
                archive.writepy(os.path.dirname(pymbolic.__file__))
            for name in [name for name in sys.modules if name.partition(".")[0] == "pymbolic"]:
                del sys.modules[name]
            sys.path.insert(0, "all.zip")
            import pymbolic.parser, kcl.loopy
            from kcl.frontends.loopy import insides
            assert pymbolic.parser.__file__.endswith(".pyc")
            print(json.dumps([*insides.now()]))
            """
        assert child.json(code) == []


class TestOriginal:
    def test_what_the_import_gave(self, monkeypatch):
        """A replaced function has an original; a name that the program added has none."""
        own = c.CFamilyASTBuilder.emit_if
        monkeypatch.setattr(c.CFamilyASTBuilder, "emit_if", emit)
        monkeypatch.setattr(c, "kcl_added", emit, raising=False)
        assert insides.original("loopy.target.c.CFamilyASTBuilder", "emit_if") is own
        assert insides.original("loopy.target.c", "kcl_added") is None

    def test_early(self, child):
        """What another package put there before kcl came is no original."""
        code = """
            import functools, json, loopy
            class Mine:
                def made(self): pass
                __call__ = made
            early = {
                "make_kernel": lambda *_: 1, "split_iname": functools.partial(loopy.split_iname),
                "add_dtypes": Mine().made, "tag_inames": Mine(), "assume": Mine,
            }
            vars(loopy).update(early)
            from kcl.frontends.loopy import insides
            print(json.dumps([insides.original("loopy", name) is None for name in early]))
            """
        assert child.json(code) == [True] * 5

    @pytest.mark.parametrize("first", ["", "import kcl.loopy"])
    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ("module.parse = mine", "parse"),
            ("module.parse = functools.lru_cache(mine)", "parse"),
            ("module.parse = functools.partial(functools.partial(mine))", "parse"),
            ("module.parse = contextlib.contextmanager(mine)", "parse"),
            ("module.Parser.kept = functools.cached_property(mine)", "kept"),
            ("module.Parser.kept = Mine()", "kept"),
            ("module.parse = mock.Mock(side_effect=mine)", "parse"),
            ("self.get_code = mine", "the code of its file"),
            ("module.__file__ = '/elsewhere' + module.__file__", "the code of its file"),
            ("sys.modules['pymbolic'].__file__ = '/elsewhere/__init__.py'", "the code of its file"),
            ("Loader.__module__ = '__main__'", "the code of its file"),
        ],
    )
    def test_hook_of_imports(self, child, first, change, name):
        """What a program's hook puts into a module as it is imported is a change, and so is what its loader runs."""
        code = """
            import contextlib, functools, json, sys
            from importlib.machinery import PathFinder, SourceFileLoader
            from unittest import mock
            FIRST
            def mine(*_): return 1
            class Mine: pass
            class Loader(SourceFileLoader):
                __module__ = "importlib"
                def exec_module(self, module):
                    super().exec_module(module)
                    CHANGE
            class Hook:
                def find_spec(self, name, path=None, target=None):
                    if name == "pymbolic.parser":
                        spec = PathFinder.find_spec(name, path)
                        spec.loader = Loader(name, spec.origin)
                        return spec
            sys.meta_path.insert(0, Hook())
            import pymbolic, kcl.loopy
            from kcl.frontends.loopy import insides
            print(json.dumps([*insides.now()]))
            """
        found = child.json(code.replace("FIRST", first).replace("CHANGE", change))
        assert name in [other for _holder, other in found]

    @pytest.mark.parametrize("module", ["__main__", "pytest"])
    def test_early_bases(self, child, module):
        """Bases that the program gave a class before kcl came are a change, and stay one."""
        code = """
            import json, loopy.target.opencl as target
            kind = target.ExpressionToOpenCLCExpressionMapper
            class Mixed(*kind.__bases__):
                pass
            Mixed.__module__ = MODULE
            kind.__bases__ = (Mixed,)
            from kcl.frontends.loopy import insides
            with insides.as_imported():
                found = [[*map(str, insides.now())], kind.__bases__ == (Mixed,)]
            found.append(kind.__bases__ == (Mixed,))
            kind.__bases__ = (type("Other", (Mixed,), {}),)
            insides.now()
            kind.__bases__ = (Mixed,)
            print(json.dumps([*found, bool(insides.now())]))
            """
        changes, *kept = child.json(code.replace("MODULE", repr(module)))
        assert len(changes) == 1
        assert "'__bases__'" in changes[0]
        assert all(kept)


MINE = "import pymbolic.primitives; pymbolic.primitives.Variable.mine = json.dumps"
# What a program does before kcl comes, then before a first look, and what it does next; which names that changes.
IMPORTS = {
    "loopy first": ("import loopy", "import loopy.target.cuda, loopy.target.ispc", MINE, {"mine"}),
    "kcl first": (
        "import kcl.loopy",
        "import loopy.target.cuda, loopy.target.ispc",
        MINE,
        {"mine"},
    ),
    "parts first": ("import pyopencl, pymbolic", "import loopy.target.cuda", MINE, {"mine"}),
    "a key before loopy's import": (
        "import pymbolic, kcl.loopy; from kcl.frontends.loopy import insides; insides.now()",
        *("", "", set()),
    ),
    # A reload of a module is no import: what it gives is a change.
    "a reload": (
        *("", "import importlib, loopy.transform.padding"),
        "importlib.reload(sys.modules['loopy.transform.padding'])",
        {"split_array_dim"},
    ),
    # In an application that PyInstaller made, code names a path below the application's folder.
    "an application": (
        """
import os, sys, types, pytools
sys._MEIPASS = os.path.dirname(os.path.dirname(pytools.__file__))
for function in vars(pytools).values():
    if isinstance(function, types.FunctionType) and function.__module__ == "pytools":
        function.__code__ = function.__code__.replace(co_filename="pytools/__init__.py")
""",
        *("", "import pytools; pytools.flatten = json.dumps", {"flatten"}),
    ),
    # What the import of a module of the generators fills in another module is the import's own.
    "filled by an import": (
        "",
        "insides.now(); import cgen; cgen.__path__ = sys.argv[1:]; cgen.__file__ = sys.argv[1] + '/__init__.py'; "
        "import cgen.filler",
        *("cgen.filler.c.filled = 7", {"filled"}),
    ),
}


class TestImports:
    @pytest.mark.parametrize("case", IMPORTS)
    def test_order(self, child, tmp_path, case):
        """Whatever is imported first, what imports give is no change, and what a program changes later is one."""
        first, more, change, names = IMPORTS[case]
        filler = "import loopy.target.c as c\nc.filled = 5\nc.CASTBuilder.filled = 6\n"
        (tmp_path / "filler.py").write_text(filler)
        lines = (
            *("import json, sys", first, "import kcl.loopy, loopy"),
            *("from kcl.frontends.loopy import insides, making", "making.loopy()", more),
            *("before = len(insides.now())", change),
            "print(json.dumps([before, [name for _holder, name in insides.now()]]))",
        )
        before, found = child.json("\n".join(lines), str(tmp_path))
        assert before == 0
        assert names <= {*found}
        assert case == "a reload" or found == [*names]

    def test_after_an_import_that_failed(self, child):
        """Code that a program gave a function of theirs before the first import of a generator is a change."""
        code = """
            import contextlib, json, kcl.loopy, pytools
            with contextlib.suppress(ImportError):
                import namedisl
            pytools.flatten.__code__ = json.dumps.__code__
            import pymbolic
            from kcl.frontends.loopy import insides
            print(json.dumps([*map(list, insides.now())]))
            """
        assert child.json(code) == [["pytools", "flatten"]]
