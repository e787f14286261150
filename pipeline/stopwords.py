"""Words that carry no subject: English function words, and the cue words of asking and of talking to an assistant."""

from __future__ import annotations

_FUNCTION = """
a an the this that these those each every either neither both all any some such same other another own no none
i me my myself you your yours yourself yourselves he him his himself she her hers herself it its itself
we us our ours ourselves they them their theirs themselves one someone somebody anyone anybody everyone everybody
something anything everything nothing
be am is are was were been being have has had having do does did doing done
can could must shall should would ought
don't doesn't didn't isn't aren't wasn't weren't haven't hasn't hadn't can't cannot couldn't shouldn't won't wouldn't
i'm i've i'd i'll you're you've you'd you'll he'd he'll she'd she'll it'll we're we've we'd we'll they're they've they'd they'll
and or but nor not if then else than because so though although while whereas unless until whether as
at by for from in into of off on onto out over under up down to with without within about above after again against
along among around before below between beyond during except per since through toward towards upon via
here there now just only also too very quite rather really already still yet ever even perhaps maybe much many more most few
"""

_CUES = """
what which who whom whose when where why how what're who're
please tell show give say said let know remember recall remind wonder think
hi hello hey ok okay thanks thank yes
"""

ENGLISH = frozenset(f"{_FUNCTION} {_CUES}".split())
"""Folded and unstemmed, possessive endings off: what the analyser calls plain words. `may`, `will` and `mine` are left out, being
a month, a name and a place as well."""
