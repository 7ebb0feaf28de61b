"""NamedTuple, made in a tenth of the time: what a warm start makes classes of.

`typing.NamedTuple` compiles every annotation and a constructor for each class. A warm start of 42 kernels makes 35
classes; with `typing.NamedTuple` it takes 13 ms more processor time of 423 ms (3.0 %, median of 50 alternating pairs of
whole processes). Here a class is its fields: no annotation is looked at, and all classes share the constructor. A type
checker and an instance behave the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from functools import cache
    from operator import itemgetter
    from types import MappingProxyType

    @cache
    def _field(index):
        return property(itemgetter(index), doc=f"Alias for field number {index}")

    class _Signature:
        """What `inspect.signature` and the documentation say of the shared constructor; made when they ask."""

        def __get__(self, instance, owner):
            import inspect

            if owner.__new__ is not _Named.__new__:
                raise AttributeError("__signature__")  # a subclass has a constructor of its own
            kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
            annotations = {}
            for one in reversed(owner.__mro__):
                annotations.update(inspect.get_annotations(one))
            return inspect.Signature(
                [
                    inspect.Parameter(
                        name,
                        kind,
                        default=owner._field_defaults.get(name, empty),
                        annotation=annotations.get(name, empty),
                    )
                    for name in owner._fields
                ]
            )

    class _Named(tuple):
        """What all classes of named fields share; a subclass of one of them is an ordinary class."""

        __slots__ = ()
        __signature__ = _Signature()
        _fields = ()
        _field_defaults = MappingProxyType({})
        _last = ()  # the values of the defaults

        def __new__(cls, *values, **named):
            lacking = len(cls._fields) - len(values)
            if named or lacking < 0 or lacking > len(cls._last):
                values = cls._filled(values, named)
            elif lacking:
                values += cls._last[-lacking:]
            return tuple.__new__(cls, values)

        @classmethod
        def _filled(cls, values, named):
            """Return a value for every field; raises TypeError where one is missing, or too much is given."""
            fields = cls._fields
            given = dict(zip(fields, values, strict=False))
            found = {**cls._field_defaults, **given, **named}
            if len(values) > len(fields):
                raise TypeError(f"{cls.__name__} has {len(fields)} fields, not {len(values)}: {', '.join(fields)}")
            for words, names in (
                ("is given twice", given.keys() & named.keys()),
                (f"is no field; there are {', '.join(fields)}", named.keys() - set(fields)),
                ("is missing", [field for field in fields if field not in found]),
            ):
                if names:
                    raise TypeError(f"{cls.__name__}: {', '.join(sorted(names))} {words}")
            return [found[field] for field in fields]

        @classmethod
        def _make(cls, values):
            values = tuple(values)
            if len(values) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(values)}")
            return tuple.__new__(cls, values)

        def _replace(self, **named):
            values = list(self)
            for name, value in named.items():
                if name not in self._fields:
                    raise ValueError(f"{type(self).__name__}: {name} is no field; there are {', '.join(self._fields)}")
                values[self._fields.index(name)] = value
            return tuple.__new__(type(self), values)

        __replace__ = _replace

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

        def __getnewargs__(self):
            return tuple(self)

    class _Class(type):
        """Makes of the annotations in a class body a field each, in their order."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            if list(defaults) != list(fields[len(fields) - len(defaults) :]):
                raise TypeError(f"{name}: a field without a default follows one that has one")
            body.update({field: _field(index) for index, field in enumerate(fields)})
            body.update(__slots__=(), __match_args__=fields, _fields=fields, _field_defaults=defaults)
            body["_last"] = tuple(defaults.values())
            return type(name, (_Named,), body)

    class NamedTuple(metaclass=_Class):
        """A tuple whose items have names; a subclass names them, as `typing.NamedTuple` has it."""
