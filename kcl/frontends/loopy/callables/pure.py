"""The key of a pure recipe: its version, its parameters, and the files of its code. Nothing of it runs."""

from __future__ import annotations

from kcl.cache.key import Part
from kcl.errors import UnknownInput
from kcl.frontends.loopy.callables.encoder import Encoder
from kcl.generate.declarations import RecipeCall
from kcl.generate.evidence import PARAMETER, site_of


def key_parts(call: RecipeCall) -> list[Part]:
    """Return the parts of a pure recipe's key; raise UnknownInput if a parameter has no exact text."""
    encoder, declared = Encoder(), call.declared
    parameters = {f"{PARAMETER}{name}": value for name, value in call.arguments.items()}
    with encoder.having(promised=True):
        try:
            texts = {
                name: encoder.encode(value)
                for name, value in {**parameters, **declared.values}.items()
            }
            texts[f"code {call.written.__qualname__}"] = encoder.encode(call.function)
        except Exception as error:
            # A parameter may run code of the program, which may raise anything.
            is_known = isinstance(error, UnknownInput)
            reason = str(error) if is_known else f"{type(error).__name__}: {error}"
            where = f"{call.name} ({site_of(call.written)})"
            raise UnknownInput(f"a parameter or the code of {where}: {reason}") from None
    version = [] if declared.version is None else [Part("declared version", declared.version)]
    return [*version, *[Part(*pair) for pair in {**texts, **encoder.parts}.items()]]
