"""Words that carry no subject, and words that carry little: English function words, cue words of asking, and commonplace words."""

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

_COMMONPLACE = """
accept act add afford agree allow answer appear apply arrive ask avoid
bear beat become became began begin begun believe belong blow blew bring brought build built burn buy bought
call came care catch caught cause change check choose chose clean clear close carry come complete concern consider contain continue cost
cover create cut
deal decide depend describe die discuss draw drew drive drop dry
eat ate end enjoy enter exist expect explain
fail fall fell feel felt fight fill find finish fit fix follow forget forgot forgotten form found
gave get given go goes going gone got grew grow guess
handle hang happen hate hear heard held help hide hit hold hope hurt
imagine improve include increase involve join jump keep kept kill knew known
lack laid land last lay lead learn leave led left lie lift like limit link list listen live lose lost look love
made make manage mark matter mean meant measure meet mention met mind miss move
need notice offer open order
paid pass pay pick plan play place point prefer prepare press promise provide pull push put
raise ran reach read receive reduce refer relate remain remove repeat replace reply report require rest return ride ring rise run
sat save saw see seem seen sell send sent serve set settle shake share shine shut sit sleep slept solve sort sound speak spell spend
spent spoke
stand start state stay step stick stood stop suggest support suppose
take taken talk taught teach tend thought threw throw told took touch travel treat tried trust try turn
understand understood use visit vote wait wake walk want wash watch wear went win wish won work worry worth write written wrote
able actual alone amazing awful bad basic beautiful best better big bright brief busy careful certain cheap cold common cool correct
crazy current
dark dear deep different difficult direct due early easy empty enough entire exact excellent excited extra
fair famous far fast favorite favourite fine first flat former free frequent fresh friendly full fun funny further general glad good
great
half happy hard heavy helpful high hot huge important impossible inside interested interesting kind
large late later least less light likely little local long loud low lucky main major mere minor modern
narrow near necessary new next nice normal obvious odd old opposite ordinary original outside overall
particular past perfect personal plain pleasant poor popular possible present pretty previous private probable proper public pure quick
quiet
rare ready real recent regular related responsible rich right rough round
sad safe serious several sharp short shy sick significant similar simple single slight slow small smart soft special specific sorry
steady straight strange strong stupid sudden suitable sure sweet
tall terrible thick thin tiny tired tough true typical ugly unable unusual upset useful usual various warm weak weird wet whole wide
wild wonderful worse worst wrong young
ago ahead almost alright altogether anyway apart aside away awhile badly barely clearly currently definitely directly easily entirely
especially eventually exactly finally
fully generally hardly hopefully immediately indeed instead lately likewise meanwhile mostly nearly never nevertheless nobody nowadays
obviously often otherwise
possibly probably properly quickly recently sadly seldom slightly slowly somehow sometimes somewhere soon suddenly surely therefore
together totally twice typically usually whatever whenever wherever
honestly basically literally seriously apparently
zero two three four five six seven eight nine ten dozen hundred thousand million second third fourth fifth once
minute hour day week weekend year decade century time moment today tonight tomorrow yesterday morning noon afternoon evening night
date
january february march april june july august september october november december monday tuesday wednesday thursday friday saturday
sunday
thing stuff way part piece bit lot type example case fact reason result problem issue question idea topic detail information
people person man men woman women guy boy girl child children kid friend
number amount size level side top bottom middle front back corner edge line area home world
life story word
job member meeting project task service process
value
beginning center centre chance choice condition course difference difficulty effort event experience feeling future history interest
mistake opportunity purpose quality rule sense shape situation solution success trouble view
bye cheers congratulations damn goodbye gosh ha haha hm hmm lol nope oh oops ouch pls sir thx ugh uh um welcome wow yeah yep yup
"""

COMMONPLACE = frozenset(_COMMONPLACE.split())
"""Folded and unstemmed: what people say whatever they talk about. In a memory of some dozen notes such a word can be as rare as a
name, and would be taken for one. All words of the same stem are meant."""
