"""A model of how processes and threads lead, wait and publish, explored in all orders of their steps.

The functions below `launch` say what one thread does, each like the function of kcl that its docstring names, as
generators: they yield an operation and are sent its result. `explore` runs several such agents, and in every state
lets each of them take the next step, each process be killed, or be stopped and go on later. Waiting is no step, so a
state without a next one is one in which nobody will ever do anything again.

    operation       of kcl                                results
    find key        Layer.look_up, through lookup.find    hit, job, miss; torn must never be
    lead key        ThreadLeads.lead                           True, False
    aim key         ThreadLead.wait, until it waits            wait, circle, gone
    await key       ThreadLead.wait                            released, left
    open place      process_leads._join                          the file
    lock place      process_leads._lock                          True, False
    wait place      process_leads.Wait.until_locked           True, left
    at place        process_leads._is_at                         True, False
    close place     process_leads._close
    unlink, unlock  ProcessLead._unlock
    released key      ThreadLead.release
    living key      Build.program: whether a thread of this process has the program; lives key: it has it now
    make key        Stage.make
    create, write, write, rename     stores.directory.publish
    request key     drivers.pocl.client.request
    helper key      drivers.pocl.client.wait              done, left

A place is a key with the number of the successor. `tests/truth/test_lead_model.py` compares the steps of real launches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Op = tuple[Any, ...]
Steps = Generator[Op, Any, Any]
CODE, PROGRAM = "code", "program"
WHOLE = 2  # writes until an entry is whole
PRIVATE = frozenset({"make", "create", "write", "close"})  # nobody else sees these, and a kill undoes them
MEMORY = frozenset({"lead", "aim", "released", "living", "lives"})  # nor these, where a process has one thread


@dataclass
class ProcessLead:
    """`kcl.cache.process_leads.ProcessLead`: the place of the lock that is held, or -1, and whether threads wait."""

    key: str
    place: int = -1
    makes: bool = False


@dataclass
class Lead:
    """`kcl.cache.lead.Lead`."""

    process_leads: list[ProcessLead] = field(default_factory=list)
    earlier: str = ""


@dataclass(frozen=True)
class Rules:
    """What the agents do, and what happens to them; the last four are errors that the checker has to find."""

    successors: int = 1
    kernels: tuple[str, ...] = ("",)  # what each agent launches, one after the other
    helper: bool = False  # programs are completed by a helper process, as PoCL's are
    kills: int = 0
    stops: int = 0
    impatient: bool = False  # a waiter may leave at any time, not only where the maker is stopped
    keeps_lead: bool = False
    writes_in_place: bool = False
    waits_for_itself: bool = False
    waits_for_ever: bool = False


def launch(rules: Rules, kernels: tuple[str, ...]) -> Steps:
    """`kcl.line.Line.launcher`."""
    for kernel in kernels:
        lead = Lead()
        yield from obtain(rules, lead, CODE + kernel, False)
        yield from program(rules, lead, PROGRAM + kernel)
        yield from release(lead)  # as the block of the lead ends


def program(rules: Rules, lead: Lead, key: str) -> Steps:
    """`kcl.build.stage.Build.program`, with `ThreadLeads.turn`: one thread of a process asks for a program."""
    turn = f"turn {key}"
    mine = yield "lead", turn
    if not mine and not rules.keeps_lead:
        yield from release(lead)
    while not mine:
        waits = yield "aim", turn
        if waits == "circle" or (waits == "wait" and (yield "await", turn) == "left"):
            break
        mine = yield "lead", turn
    promised = False
    if not (yield "living", key):
        promised = yield from obtain(rules, lead, key, rules.helper)
        yield "lives", key
    if mine:
        yield "released", turn
    if promised:  # Program.note_launch
        yield "request", key


def obtain(rules: Rules, lead: Lead, key: str, promises: bool) -> Steps:
    """`kcl.cache.lookup.obtain`; tells whether an entry is promised."""
    found = yield from find(key)
    if found != "hit":
        yield from take(rules, lead, key)
        found = yield from find(key)
    if found != "hit":
        yield "make", key
        if not promises:
            yield from publish(rules, key)
    if found == "hit" or not (promises or key.startswith(CODE)):
        yield from release(lead)
    lead.earlier = key
    return promises and found != "hit"


def find(key: str) -> Steps:
    """`kcl.cache.lookup.find`, with `Driver.awaited`."""
    found = yield "find", key
    if found == "job":
        yield "helper", key
        found = yield "find", key
    return found


def take(rules: Rules, lead: Lead, key: str) -> Steps:
    """`kcl.cache.lead.Lead.take`."""
    if lead.earlier and not lead.process_leads:  # Lead._follow
        held = yield from join(rules, lead.earlier, Lead())
        yield from release_one(held)
    held = yield from join(rules, key, Lead() if rules.keeps_lead else lead)
    yield from release(lead)
    lead.process_leads.append(held)


def release(lead: Lead) -> Steps:
    """`kcl.cache.lead.Lead.release`."""
    while lead.process_leads:
        yield from release_one(lead.process_leads.pop())


def release_one(held: ProcessLead) -> Steps:
    """`kcl.cache.process_leads.ProcessLead.release`."""
    if held.place >= 0:
        yield "unlink", held.key, held.place
        yield "unlock", held.key, held.place
    if held.makes:
        yield "released", held.key


def join(rules: Rules, key: str, lead: Lead) -> Steps:
    """`kcl.cache.process_leads.join`; the lead is what `before_waiting` lets go of."""
    if not (yield "lead", key):
        yield from release(lead)
        if (yield "aim", key) == "wait":
            yield "await", key
        return ProcessLead(key)
    for place in range(1 + rules.successors):  # process_leads._among_processes
        held, left = yield from lock(key, place, lead)
        if held or not left:
            break
    return ProcessLead(key, place if held else -1, True)


def lock(key: str, place: int, lead: Lead) -> Steps:
    """`kcl.cache.process_leads._join`: whether the lock is held, and whether its holder was left behind."""
    waited = False
    while True:
        yield "open", key, place
        got = yield "lock", key, place
        if not got:
            waited = True
            yield from release(lead)
            got = (yield "wait", key, place) is True
        if got and (yield "at", key, place):
            return True, False
        yield "close", key, place
        if waited:
            return False, not got


def publish(rules: Rules, key: str) -> Steps:
    """`kcl.cache.stores.directory.publish`."""
    if rules.writes_in_place:
        yield from [("write in place", key)] * WHOLE
        return
    yield "create", key
    yield from [("write", key)] * WHOLE
    yield "rename", key


def complete(rules: Rules, keys: tuple[str, ...]) -> Steps:
    """`kcl.drivers.pocl.helper`: take the jobs as they come, and publish."""
    for key in keys:
        yield "job", key
        yield from publish(rules, key)
        yield "done", key


class Program:
    """The steps of one agent as a table: a state of its generators, by its frames, and what follows each result."""

    def __init__(self, begin: Any) -> None:
        self._begin = begin
        self._numbers: dict[Any, int] = {}
        self._paths: list[tuple[Any, ...]] = []  # of results that lead to each state
        self.ops: list[Op] = []
        self._next: dict[tuple[int, Any], int] = {}
        self.start = self._reached(())

    def after(self, state: int, result: Any) -> int:
        """Return the state after an operation had this result; -1 is the end."""
        found = self._next.get((state, result))
        if found is None:
            found = self._next[state, result] = self._reached((*self._paths[state], result))
        return found

    def _reached(self, path: tuple[Any, ...]) -> int:
        steps = self._begin()
        try:
            op = next(steps)
            for result in path:
                op = steps.send(result)
        except StopIteration:
            return -1
        frames = tuple(_frames(steps))
        if frames not in self._numbers:
            self._numbers[frames] = len(self.ops)
            self.ops.append(op)
            self._paths.append(path)
        return self._numbers[frames]


def _frames(steps: Any) -> Iterator[Any]:
    while steps is not None and getattr(steps, "gi_frame", None) is not None:
        frame = steps.gi_frame
        yield frame.f_code.co_name, frame.f_lasti, repr(sorted(frame.f_locals.items(), key=lambda pair: pair[0]))
        steps = steps.gi_yieldfrom
    if steps is not None:
        yield repr(steps.__reduce__())  # how far an iterator of a list is


class State(NamedTuple):
    """Everything that the agents share; the files and makers by key, agents by number."""

    at: tuple[int, ...]  # the state of each agent's program; -1: it ended, -2: it is dead
    store: tuple[tuple[str, int], ...] = ()  # how much of each entry is written
    temporary: tuple[tuple[tuple[int, str], int], ...] = ()
    files: tuple[tuple[Op, int], ...] = ()  # the inode at each place
    opened: tuple[tuple[tuple[int, Op], int], ...] = ()  # the inode that an agent has open for a place
    held: tuple[tuple[int, int], ...] = ()  # the agent that holds the lock of an inode
    makers: tuple[tuple[tuple[int, str], int], ...] = ()  # the agent that makes, by process and key
    awaited: tuple[tuple[int, int], ...] = ()  # the agent that an agent waits for in memory; -1: it was released
    living: frozenset[tuple[int, str]] = frozenset()  # programs by process
    jobs: frozenset[str] = frozenset()
    made: tuple[tuple[str, int], ...] = ()  # how often each key was made
    stopped: frozenset[int] = frozenset()
    kills: int = 0
    stops: int = 0


def put(table: tuple[Any, ...], key: Any, value: Any) -> tuple[Any, ...]:
    """Return the table with a row; without one where the value is None."""
    found = dict(table)
    found.pop(key, None)
    if value is not None:
        found[key] = value
    return tuple(sorted(found.items()))


class Model:
    """Agents, each a thread of a process; the last one may be the helper."""

    def __init__(self, rules: Rules, processes: tuple[int, ...], orders: tuple[tuple[str, ...], ...] = ()) -> None:
        self.rules = rules
        orders = orders or (rules.kernels,) * len(processes)
        made = {order: Program(lambda order=order: launch(rules, order)) for order in orders}
        self.programs = [made[order] for order in orders]
        self.processes = processes
        self.people = len(processes)
        if rules.helper:
            keys = tuple(PROGRAM + kernel for kernel in rules.kernels)
            self.programs.append(Program(lambda: complete(rules, keys)))
            self.processes = (*processes, max(processes) + 1)
        self._is_alone = [self.processes.count(process) == 1 for process in self.processes]
        self._are_alike = all(self._is_alone) and len(set(orders)) == 1
        self.start = State(tuple(one.start for one in self.programs), kills=rules.kills, stops=rules.stops)

    def steps(self, state: State) -> Iterator[tuple[Op, State]]:
        """Yield what may happen next, and the states then.

        A step that no other agent can see is taken at once, alone: it makes no difference when it happens.
        """
        for agent, at in enumerate(state.at):
            if at >= 0 and self.processes[agent] not in state.stopped and self._is_private(agent, at):
                yield from self._of(state, agent)
                return
        for process in sorted(set(self.processes)):
            agents = [agent for agent, its in enumerate(self.processes) if its == process and state.at[agent] >= 0]
            if not agents:
                continue
            if process in state.stopped:
                yield ("continue", process), state._replace(stopped=state.stopped - {process})
            else:
                for agent in agents:
                    yield from self._of(state, agent)
                if state.stops:
                    yield ("stop", process), state._replace(stopped=state.stopped | {process}, stops=state.stops - 1)
            if state.kills:
                yield ("kill", process), self._same(self._killed(state, agents))

    def _of(self, state: State, agent: int) -> Iterator[tuple[Op, State]]:
        """Yield what an agent may do next."""
        op = self.programs[agent].ops[state.at[agent]]
        for result, after in self.results(state, agent, op):
            at = list(after.at)
            at[agent] = self.programs[agent].after(state.at[agent], result)
            yield (agent, *op, result), self._same(after._replace(at=tuple(at)))

    def _is_private(self, agent: int, at: int) -> bool:
        name = self.programs[agent].ops[at][0]
        return name in PRIVATE or (name in MEMORY and self._is_alone[agent])

    def _same(self, state: State) -> State:
        """Return one of the states that differ by the numbers of inodes, and of agents that are alike."""
        state = _named(state)
        if not self._are_alike:
            return state
        rows: list[list[Any]] = [[] for _ in self.processes]
        for (agent, place), inode in state.opened:
            rows[agent].append((place, inode))
        order = sorted(range(self.people), key=lambda agent: (state.at[agent], agent in state.stopped, rows[agent]))
        if order == sorted(order):
            return state
        return _named(
            _renumbered(state, {old: new for new, old in enumerate([*order, *range(self.people, len(rows))])})
        )

    def results(self, state: State, agent: int, op: Op) -> Iterator[tuple[Any, State]]:
        """Yield the results that an operation can have now, with the states then; nothing while it waits."""
        name, key, place = op[0], op[1], op[1:]
        me = (self.processes[agent], key)
        makers, files, held, opened = dict(state.makers), dict(state.files), dict(state.held), dict(state.opened)
        inode = opened.get((agent, place), 0)
        if name == "find":
            there = dict(state.store).get(key, 0)
            job = "job" if key in state.jobs else "miss"
            yield "hit" if there == WHOLE else "torn" if there else job, state
        elif name == "lead":
            free = me not in makers
            yield free, state._replace(makers=put(state.makers, me, agent)) if free else state
        elif name == "aim":
            yield from self._aim(state, agent, makers.get(me))
        elif name == "await":
            yield from self._await(state, agent, me)
        elif name == "open":
            inode = files.get(place) or 1 + max([*files.values(), *opened.values(), 0])
            after = state._replace(
                files=put(state.files, place, inode), opened=put(state.opened, (agent, place), inode)
            )
            yield None, after
        elif name in ("lock", "wait"):
            if inode not in held:
                yield True, state._replace(held=put(state.held, inode, agent))
            elif name == "lock":
                yield False, state
            if inode in held and name == "wait" and self._is_left(state, held[inode]):
                yield "left", state
        elif name == "at":
            yield files.get(place) == inode, state
        elif name in ("close", "unlock"):
            kept = put(state.held, inode, None) if held.get(inode) == agent else state.held
            yield None, state._replace(opened=put(state.opened, (agent, place), None), held=kept)
        elif name == "unlink":
            yield None, state._replace(files=put(state.files, place, None))
        elif name == "living":
            yield me in state.living, state
        elif name == "lives":
            yield None, state._replace(living=state.living | {me})
        elif name == "released":
            yield None, _released(state, me, agent)
        else:
            yield from self._made(state, agent, name, key)

    def _aim(self, state: State, agent: int, maker: int | None) -> Iterator[tuple[Any, State]]:
        if maker is None:
            yield "gone", state
            return
        awaited, seen = dict(state.awaited), maker
        for _ in range(len(awaited) + 1):
            if seen == agent and not self.rules.waits_for_itself:
                yield "circle", state
                return
            seen = awaited.get(seen, -1)
        yield "wait", state._replace(awaited=put(state.awaited, agent, maker))

    def _await(self, state: State, agent: int, me: Any) -> Iterator[tuple[Any, State]]:
        maker, after = dict(state.awaited)[agent], state._replace(awaited=put(state.awaited, agent, None))
        if maker < 0:
            yield "released", after
        elif self.rules.impatient:
            mine = dict(state.makers).get(me) == maker
            yield "left", after._replace(makers=put(after.makers, me, None)) if mine else after

    def _is_left(self, state: State, holder: int) -> bool:
        stopped = self.processes[holder] in state.stopped
        return not self.rules.waits_for_ever and (stopped or self.rules.impatient)

    def _made(self, state: State, agent: int, name: str, key: str) -> Iterator[tuple[Any, State]]:
        """Yield the results of what makes, publishes and completes entries."""
        mine = (agent, key)
        if name == "make":
            yield None, state._replace(made=put(state.made, key, 1 + dict(state.made).get(key, 0)))
        elif name == "create":
            yield None, state._replace(temporary=put(state.temporary, mine, 0))
        elif name == "write":
            written = dict(state.temporary)[mine] + 1
            yield None, state._replace(temporary=put(state.temporary, mine, written))
        elif name == "rename":
            written = dict(state.temporary)[mine]
            after = state._replace(temporary=put(state.temporary, mine, None))
            yield None, after._replace(store=put(state.store, key, written))
        elif name == "write in place":
            yield None, state._replace(store=put(state.store, key, (dict(state.store).get(key, 0) % WHOLE) + 1))
        elif name == "request":
            yield None, state._replace(jobs=state.jobs | {key})
        elif name == "job":
            if key in state.jobs:
                yield None, state
        elif name == "done":
            yield None, state._replace(jobs=state.jobs - {key})
        elif name == "helper":
            at, process = state.at[-1], self.processes[-1]
            if key not in state.jobs:
                yield "done", state
            elif at < 0 or process in state.stopped or self.rules.impatient:
                yield "left", state

    def _killed(self, state: State, agents: list[int]) -> State:
        """Return the state when the system has cleaned up after a process."""
        at = tuple([-2 if agent in agents else its for agent, its in enumerate(state.at)])
        return state._replace(
            at=at,
            held=tuple(row for row in state.held if row[1] not in agents),
            opened=tuple(row for row in state.opened if row[0][0] not in agents),
            temporary=tuple(row for row in state.temporary if row[0][0] not in agents),
            makers=tuple(row for row in state.makers if row[1] not in agents),
            awaited=tuple(row for row in state.awaited if row[0] not in agents),
            kills=state.kills - 1,
        )

    def has_ended(self, state: State) -> bool:
        """Tell whether every thread has ended, but those of processes that were killed or are stopped."""
        people = range(self.people)
        return all(state.at[agent] < 0 or self.processes[agent] in state.stopped for agent in people)

    def waits_in_circle(self, state: State) -> bool:
        """Tell whether threads of processes that run wait for each other."""
        held, opened, waits = dict(state.held), dict(state.opened), dict(state.awaited)
        for agent in range(self.people):
            if state.at[agent] >= 0 and (op := self.programs[agent].ops[state.at[agent]])[0] == "wait":
                waits[agent] = held.get(opened[agent, op[1:]], -1)
        return any(_comes_back(waits, agent) for agent in waits)


def _comes_back(waits: dict[int, int], agent: int) -> bool:
    seen = waits[agent]
    for _ in waits:
        if seen == agent:
            return True
        seen = waits.get(seen, -1)
    return False


def _released(state: State, me: Any, agent: int) -> State:
    """Return the state when a maker has released: its row is free, and those that wait for it go on."""
    makers = put(state.makers, me, None) if dict(state.makers).get(me) == agent else state.makers
    awaited = tuple((who, -1 if maker == agent else maker) for who, maker in state.awaited)
    return state._replace(makers=makers, awaited=awaited)


def _renumbered(state: State, new: dict[int, int]) -> State:
    """Return the state with other numbers for the agents, each the only one of the process with its number."""
    return state._replace(
        at=tuple([at for _agent, at in sorted(zip(map(new.get, range(len(new))), state.at, strict=True))]),
        temporary=tuple(sorted(((new[agent], key), size) for (agent, key), size in state.temporary)),
        opened=tuple(sorted(((new[agent], place), inode) for (agent, place), inode in state.opened)),
        held=tuple(sorted((inode, new[agent]) for inode, agent in state.held)),
        makers=tuple(sorted(((new[process], key), new[agent]) for (process, key), agent in state.makers)),
        awaited=tuple(sorted((new[agent], new.get(maker, -1)) for agent, maker in state.awaited)),
        living=frozenset([(new[process], key) for process, key in state.living]),
        stopped=frozenset([new[process] for process in state.stopped]),
    )


def _named(state: State) -> State:
    """Return the same state with the inodes numbered by where they are, so that equal states are equal."""
    if not state.opened and not state.files:
        return state
    names: dict[int, int] = {}
    for _place, inode in (*state.files, *state.opened):
        names.setdefault(inode, 1 + len(names))
    return state._replace(
        files=tuple((place, names[inode]) for place, inode in state.files),
        opened=tuple((who, names[inode]) for who, inode in state.opened),
        held=tuple(sorted((names[inode], agent) for inode, agent in state.held if inode in names)),
    )


@dataclass
class Explored:
    """What an exploration found: the number of states, the longest way through them, and faults with their ways."""

    states: int = 0
    ends: int = 0
    longest: int = 0
    makers: set[int] = field(default_factory=set)  # how many made the same key, over all ends
    faults: dict[str, list[Op]] = field(default_factory=dict)


def explore(model: Model) -> Explored:
    """Visit every state that can be reached; see that each way ends, and ends well."""
    found = Explored()
    came: dict[State, tuple[State, Op] | None] = {model.start: None}
    entering: dict[State, int] = {model.start: 0}
    after: dict[State, list[State]] = {}
    todo = deque([model.start])
    while todo:
        state = todo.popleft()
        after[state], goes_on = [], False
        for op, other in model.steps(state):
            after[state].append(other)
            goes_on |= isinstance(op[0], int)  # nobody is sure to get a signal
            entering[other] = entering.get(other, 0) + 1
            if other not in came:
                came[other] = state, op
                todo.append(other)
            if op[-1] == "torn":
                found.faults.setdefault("a torn entry", _way(came, state))
        if model.waits_in_circle(state):
            found.faults.setdefault("a circle of waits", _way(came, state))
        if not goes_on:
            _at_end(model, state, found, came)
    found.states = len(came)
    found.longest = _longest(model.start, entering, after)
    if not found.longest:
        found.faults["a way without an end"] = []
    return found


def _at_end(model: Model, state: State, found: Explored, came: Any) -> None:
    found.ends += 1
    if not model.has_ended(state):
        found.faults.setdefault("a deadlock", _way(came, state))
    if any(at == -1 for at in state.at[: model.people]):
        for kernel in model.rules.kernels:
            for key in (CODE + kernel, PROGRAM + kernel):
                count = dict(state.made).get(key, 0)
                found.makers.add(count)
                there = dict(state.store).get(key) == WHOLE or key in state.jobs
                if not count or not there:
                    found.faults.setdefault("an entry that nobody made", _way(came, state))


def _way(came: Any, state: State) -> list[Op]:
    """Return the steps that lead to a state."""
    found = []
    while came[state] is not None:
        state, op = came[state]
        found.append(op)
    return found[::-1]


def _longest(start: State, entering: dict[State, int], after: dict[State, list[State]]) -> int:
    """Return the number of steps of the longest way; 0 where a way comes back to where it was."""
    lengths, ready, seen = {start: 1}, [start], 0
    while ready:
        state = ready.pop()
        seen += 1
        for other in after[state]:
            lengths[other] = max(lengths.get(other, 0), lengths[state] + 1)
            entering[other] -= 1
            if not entering[other]:
                ready.append(other)
    return max(lengths.values()) if seen == len(after) else 0
