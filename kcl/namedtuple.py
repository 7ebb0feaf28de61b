"""NamedTuple, made in a tenth of the time: what a warm start makes classes of.

`typing.NamedTuple` compiles every annotation and a constructor for each class: with forty of them that is a fifth of
what importing kcl takes, and twice as many objects for the collector to walk at the end of the process. Here a class
is its fields: no annotation is looked at, and all classes share the constructor. What a type checker sees, and what
an instance can do, is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from functools import cache
    from operator import itemgetter

    @cache
    def _field(index):
        return property(itemgetter(index))

    class _Class(type):
        """Makes a class of the annotations in its body: a field each, in their order."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, (tuple,), body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            if list(defaults) != list(fields[len(fields) - len(defaults) :]):
                raise TypeError(f"{name}: a field without a default follows one that has one")
            body.update({field: _field(index) for index, field in enumerate(fields)})
            body.update(__slots__=(), __match_args__=fields, _fields=fields, _field_defaults=defaults)
            return super().__new__(cls, name, bases, body)

    class NamedTuple(metaclass=_Class):
        """A tuple whose items have names; a subclass names them, as `typing.NamedTuple` has it."""

        __slots__ = ()

        def __new__(cls, *values, **named):
            if named or len(values) != len(cls._fields):
                values = cls._filled(values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _filled(cls, values, named):
            """Return a value for every field; raises TypeError where one is missing, or too much is given."""
            fields = cls._fields
            given = dict(zip(fields, values, strict=False))
            if len(values) <= len(fields) and given.keys().isdisjoint(named):
                given = {**cls._field_defaults, **given, **named}
                if given.keys() == set(fields):
                    return [given[field] for field in fields]
            raise TypeError(f"{cls.__name__} takes {', '.join(fields)}, each once, not {values} and {named}")

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **named):
            values = list(self)
            for name, value in named.items():
                values[self._fields.index(name)] = value  # ValueError for another name
            return tuple.__new__(type(self), values)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

        def __getnewargs__(self):
            return tuple(self)
