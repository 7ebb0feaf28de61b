"""Recipes: the user's decorated functions that build kernels."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Collection, Iterable
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, overload

from kcl import frontends
from kcl.base import events
from kcl.errors import meant
from kcl.generate.declarations import RecipeCall, below, declare
from kcl.programs import note_outside_builds

if TYPE_CHECKING:
    from kcl.choices.sizes import Sizes
    from kcl.choices.tuning.space import Space
    from kcl.handle import Kernel

P = ParamSpec("P")
Q = ParamSpec("Q")

_OF_KERNELS = ("bind", "prepare", "source", "key", "explain")
# The kinds of parameters that have a name in a call.
_PLAIN, _KEYWORD = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
_IMMUTABLE = (int, float, complex, str, bytes, bool, type(None), type, FunctionType, ModuleType)

# At import, before the user's program builds anything itself.
note_outside_builds()


class Recipe(Generic[P]):
    """A decorated function that builds a kernel. A call with its compile-time parameters returns a Kernel.

    It has the name, docstring and signature of the function, and `__wrapped__`.

    >>> import inspect, kcl
    >>> @kcl.kernel
    ... def filled(value=1):
    ...     return kcl.Source(
    ...         f"kernel void filled(global int *x) {{ x[get_global_id(0)] = {value}; }}",
    ...         entry="filled",
    ...         arguments=[kcl.Array("x", "int32", 4, "out")],
    ...         global_size=4,
    ...     )
    >>> filled
    <kcl.kernel filled>
    >>> inspect.signature(filled)
    <Signature (value=1)>
    >>> filled(value=7)
    <kcl.Kernel filled(value=7): nothing generated yet>
    """

    def __init__(
        self,
        function: Callable[P, object],
        declared: dict[str, Any],
        sizes: Any,
        space: Any,
    ) -> None:
        if not isinstance(function, FunctionType):
            raise TypeError(
                f"@kcl.kernel decorates a function, not {type(function).__name__}: {function!r}"
            )
        self.function = function
        self.declared = declared
        self.sizes = (
            _sizes_of(function, declared["pure"], sizes, space) if sizes is not None else None
        )
        self.space: Space | None = None
        if space is not None:
            if not hasattr(space, "declared"):
                raise TypeError(
                    f"@kcl.kernel(space=...) takes a space such as kcl.space(block=[16, 64]), not {space!r}"
                )
            self.space = space.declared(function, self.sizes.texts if self.sizes else ())
        functools.update_wrapper(self, function)
        self._begin()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle a recipe that was sent by value, as cloudpickle does with a recipe of a script."""
        self.__dict__.update(state)
        self._begin()

    def _begin(self) -> None:
        events.listen()
        # Also for the innermost function: a decorator's module and the user's own may both import a front end's library.
        for function in (self.function, below(self.function)):
            frontends.recipe_in(function.__globals__, is_recorded=not self.declared["pure"])

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Kernel:
        """Return the Kernel for these parameters, which are copied. The function itself does not run yet.

        Raises TypeError for parameters that the function does not take, and for a queue, which belongs into the call of the
        Kernel. A recipe that depends on the device takes a device or a context.
        """
        # Imported late, since it imports pyopencl, which a recipe that is only declared does not need.
        from kcl import handle

        sizes = () if self.sizes is None else self.sizes.texts
        arguments = _bind(self.function, sizes, args, kwargs)
        # Also as a default of a parameter.
        if _has_queue(arguments.values()):
            raise _called_as_kernel(self.function.__name__)
        copied = {name: _copied(value) for name, value in arguments.items()}
        call = RecipeCall(self.function.__name__, self.function, copied, **self.declared)
        if self.space is not None:
            from kcl.choices.tuning.chooser import chooser_of

            # The arguments stand in the order of the parameters.
            by_hand = {*[*arguments][: len(args)], *map(str, kwargs)}
            return handle.Kernel(chooser_of(call, self.space, self.sizes, by_hand))
        if self.sizes is not None:
            from kcl.choices.sizes.chooser import BySizes

            return handle.Kernel(BySizes(call, self.sizes))
        return handle.of_recipe(call)

    @overload
    def __get__(self, instance: None, owner: type) -> Recipe[P]: ...

    @overload
    def __get__(
        self: Recipe[Concatenate[Any, Q]], instance: object, owner: Any = None
    ) -> Callable[Q, Kernel]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind a recipe that is a method to its object, which is then its first parameter."""
        return self if instance is None else MethodType(self, instance)

    # Hidden from type checkers, so that they find misspelt names.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError that says where a method of a Kernel, or of a loopy unit, is to be found."""
            recipe, advice = self.__dict__.get("__name__", "recipe"), ""
            if name == "executor":
                advice = f"; {_called_as_kernel(recipe)}"
            elif name in _OF_KERNELS:
                advice = f"; the kernel has it: write {recipe}().{name}(...)"
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}{advice}"
            )

    def __repr__(self) -> str:
        return f"<kcl.kernel {self.function.__qualname__}>"


@overload
def kernel(function: Callable[P, object], /) -> Recipe[P]: ...


@overload
def kernel(
    *,
    depends: Iterable[object] = (),
    version: str | None = None,
    pure: bool = False,
    sizes: Any = None,
    space: Space | None = None,
) -> Callable[[Callable[P, object]], Recipe[P]]: ...


def kernel(
    function: Callable[P, object] | None = None,
    /,
    *,
    depends: Iterable[object] = (),
    version: str | None = None,
    pure: bool = False,
    sizes: Any = None,
    space: Any = None,
) -> Any:
    """Make a recipe of a function that returns a loopy TranslationUnit or a kcl.Source.

    The function runs in every process. Import loopy inside it, or write `import kcl.loopy as lp` at the head of its
    file: it then gets the face of loopy, which records its calls, and a warm start does not import loopy.

    With `pure` you promise that the parameters and `version`, a text of your own, decide what the function returns. kcl
    then finds the key without running the function, and runs it only if nothing is cached. Code that the function calls is
    part of the key too, as far as kcl can follow its names. Files and other inputs that it reads are not: change the
    version when they change. The page "What a pure recipe promises" says more.

    `depends` lists further values, functions and classes on which a pure recipe depends. `version` is part of the key of
    every recipe. `sizes` maps parameters that the caller does not give to expressions over the arguments of a call: the
    recipe gets a kcl.Size for each. `space` lists values of parameters, among which `kcl tune` measures; each call then
    uses the best ones for its sizes: see kcl.space.

    Raises TypeError for declarations that make no sense, such as `pure` without a version or `depends` without `pure`.

    >>> @kcl.kernel
    ... def doubled():
    ...     import loopy as lp
    ...     return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> event, (y,) = doubled()(queue, x=np.array([1, 2, 3]))
    >>> y.tolist()
    [2, 4, 6]
    """
    declared = declare(depends, version, pure)

    def decorate(function: Callable[P, object]) -> Recipe[P]:
        return Recipe(function, declared, sizes, space)

    return decorate(function) if function else decorate


def _sizes_of(function: FunctionType, pure: bool, sizes: Any, space: Any) -> Sizes:
    """Check the declared sizes of a recipe; with a space they need not be parameters of the function."""
    from kcl.choices.sizes import declared as sizes_declared

    parameters = tuple(inspect.signature(function).parameters)
    result = sizes_declared(sizes, parameters, others=space is not None)
    if pure and not set(parameters).isdisjoint(result.texts):
        raise TypeError(
            "@kcl.kernel(pure=True) takes no sizes: a body that is skipped asks nothing of them"
        )
    return result


class _LazyModule(ModuleType):
    """A module that is imported at the first use of one of its attributes."""

    __kcl_lazy_module__: str

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__kcl_lazy_module__ = name

    def __getattr__(self, attribute: str) -> Any:
        import importlib

        return getattr(importlib.import_module(self.__kcl_lazy_module__), attribute)


def lazy(name: str) -> ModuleType:
    """Return a stand-in for the module `name`, which is imported at its first use; or the module, if it is imported.

    For the library of a front end, such as loopy, it returns the face, which records the calls of recipes.

    >>> fractions = kcl.lazy("fractions")
    >>> fractions.Fraction(1, 2) * 2
    Fraction(1, 1)
    """
    face: ModuleType | None = frontends.face(name)
    return face or sys.modules.get(name) or _LazyModule(name)


def _bind(
    function: FunctionType, sizes: Collection[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return the value of each parameter except the sizes, defaults included; raise TypeError for a wrong call."""
    signature = inspect.signature(function)
    parameters = {
        name: parameter for name, parameter in signature.parameters.items() if name not in sizes
    }
    try:
        bound = signature.replace(parameters=[*parameters.values()]).bind(*args, **kwargs)
    except TypeError as error:
        if _has_queue((*args, *kwargs.values())):
            raise _called_as_kernel(function.__name__) from None
        raise _refusal(function.__name__, parameters, sizes, kwargs, error) from None
    bound.apply_defaults()
    special = [name for name in bound.arguments if parameters[name].kind not in (_PLAIN, _KEYWORD)]
    if special:
        raise TypeError(
            f"recipe {function.__qualname__}: parameter {special[0]!r} is variadic or positional-only; "
            "give every compile-time parameter a name"
        )
    return dict(bound.arguments)


def _refusal(
    name: str,
    parameters: Collection[str],
    sizes: Collection[str],
    named: Collection[str],
    error: TypeError,
) -> TypeError:
    """Return the error for a wrong call of a recipe; it lists the recipe's parameters."""
    beside = " beside the sizes" if sizes else ""
    takes = f"its parameters{beside} are {', '.join(parameters) or 'none'}"
    unknown = next((name for name in named if name not in parameters), None)
    if unknown is None:
        words = f": {error}; {takes}"
    elif unknown in sizes:
        words = f": {unknown!r} is a size, which the arguments of a call give"
    else:
        words = f" has no parameter {unknown!r}{meant(unknown, parameters)}; {takes}"
    return TypeError(f"recipe {name!r}{words}")


def _has_queue(values: Iterable[Any]) -> bool:
    """Return True if a queue was given to a recipe; it is meant for the kernel."""
    import pyopencl as cl

    return any(isinstance(value, cl.CommandQueue) for value in values)


def _called_as_kernel(name: str) -> TypeError:
    return TypeError(
        f"{name}(...) makes a kernel, which you call with a queue: write {name}()(queue, ...)"
    )


def _copied(value: Any) -> Any:
    # A plain `object()` often marks a missing argument by its identity, so it is not copied.
    if isinstance(value, _IMMUTABLE) or type(value) is object:
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        # An object that cannot be copied, such as a device or a lock, does not change its content, or gets no key anyway.
        return value
