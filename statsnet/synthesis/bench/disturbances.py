"""From when on a measurement was disturbed by a neighbour, as far as its own figures tell. What the reference network
tells of the machine's speed is in machine_speed.py."""

PROCESSES_DIFFER = 1.08
"""If a process differs from the middle one by more than this factor, a neighbour slowed its step or its reference
network. If only the reference network was slowed, the step looks faster than it is."""

OPERATORS_DIFFER = 1.5
"""If an operator takes more than this many times as long as in another process, something slowed it down there. Now and
then one takes twice as long in all steps of a process."""

FIT_SAYS_LITTLE = 1.25
"""If a finished network's operators and the time between them add up to more than this many times its step, the fit
says little."""

PROFILED_AGAIN = 1.5
"""A member is profiled once more if the reference network took this many times as long meanwhile as at its best, or if
its operators and the time between them add up to this many times its step."""

PROFILE_USELESS = 2 * PROFILED_AGAIN
"""A profile whose operators add up to more is not used by a later command."""
