"""kcl.frontends.pytato.transform: what a transformation of a unit, and what a call gets, counts by."""

import functools

import pytest

from kcl.errors import UnknownInput
from kcl.frontends.pytato import transform


@pytest.fixture
def arraycontext(pt):
    assert pt
    import arraycontext

    return arraycontext


@pytest.fixture
def text(arraycontext, queue):
    """Return the text of a context's method, for the arguments of the context."""

    def text(*given, **attributes):
        context = arraycontext.Context(queue, *given)
        vars(context).update(attributes)
        return transform.of_function(context.transform_loopy_program).exact()

    return text


def test_a_method_counts_by_the_attributes_of_its_context(text):
    found = [text(2.0), text(2.0), text(3.0), text(2), text(2.0, "options"), text(2.0, more=1)]
    assert found[0] == found[1]
    assert len({*found}) == 5


def test_memos_of_a_context_count_nothing(text):
    memos = {"_freeze_prg_cache": {1: 2}, "_pytools_keyed_memoize_in_dict": {3: 4}}
    assert text(2.0, **memos) == text(2.0)


def test_the_namespace_of_a_context_counts_by_its_class(text, arraycontext):
    one, other = arraycontext.Scaling(1.0), arraycontext.Scaling(2.0)
    assert text(2.0, np=one) == text(2.0, np=other)
    assert text(2.0, np=1) != text(2.0, np=2)


def test_a_function_counts_by_its_name_and_what_it_holds(arraycontext):
    functions = [arraycontext.scaled, arraycontext.warned]
    for factor in (2.0, 3.0):
        functions.append(functools.partial(arraycontext.scaled, factor=factor))
        owners = arraycontext.Scaling(factor), arraycontext.Pair((factor,))
        functions += [owner.scaled for owner in owners]
    assert len({transform.of_function(one).exact() for one in functions}) == len(functions)


class Own:
    factor = property(lambda _self: 3.0)

    def choose(self):
        return 3.0


def test_code_of_the_program_has_no_text(text, arraycontext):
    for change in (
        lambda unit: unit,
        arraycontext.Scaling(Own()).asking,
        functools.partial(arraycontext.by_tag, tag=Own()),
    ):
        with pytest.raises(UnknownInput, match="code of the program"):
            transform.of_function(change)
    with pytest.raises(UnknownInput, match="code of the program"):
        text(2.0, callback=lambda unit: unit)
    with pytest.raises(UnknownInput):
        text(2.0, options=iter((1,)))


def test_a_device_counts_by_what_distinguishes_it(queue):
    context, device = queue.context, queue.device
    found = [
        transform.of_call(one).exact() for one in (device, [device], (device,), context, queue)
    ]
    assert len({*found}) == 5
    assert device.name in found[0]
    assert transform.of_call(context) == transform.of_call(queue.context)
