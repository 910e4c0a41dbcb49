# SPDX-License-Identifier: Apache-2.0
"""Lists of English words, by what they do in a sentence: open a phrase, open a clause, be its verb.

The lists hold what the comments of this tree use. A verb that is missing from VERBS makes a sound
sentence look like a fragment, and is added here.
"""

from __future__ import annotations

import re


def listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


PREPOSITIONS = listed(
    """
    about above across against along among around at behind below beside between beyond by
    despite during except for from in inside into near of on onto out outside over per through
    to towards under unlike upon via with within without
    """
)
EITHER = listed("after as before like once since than until")
"""Words that begin a phrase ("until the end") or a clause ("until the lease ends")."""
SUBORDINATORS = listed(
    """
    although because how if that though unless what when where whether which while who whom
    whose why
    """
)
DETERMINERS = listed(
    """
    a all an another any anything both each every everybody everything few he his i it its many
    more most no nobody none nothing one other others she some somebody something that the their
    there these they this those two three four we whoever you
    """
)
"""Words that begin a new noun phrase."""
PRONOUNS = listed("that this these those it they we i he she you one")
DEGREES = listed("many much few long often soon")
"""Words behind "as" or "so" that make a measure of it: "so many jobs"."""
AUXILIARIES = listed(
    """
    am are aren't can cannot can't could did didn't do does doesn't don't had has hasn't have
    haven't is isn't it's may might must need shall should there's was wasn't were weren't will
    won't would
    """
)
ALSO_NOUNS = listed("can might must need will")
PAST = listed(
    """
    became began bore broke came chose drew drove fell flew forgot froze gave got grew knew
    meant ran rang rose said sat saw slept spoke stood swam thought told took understood went
    woke won wrote
    """
)
PAST_OR_PARTICIPLE = listed(
    """
    bound bought built caught cost cut dealt fed felt fought found heard held hit kept laid led
    left let lost made met paid put read sent set shut sold spent split spread taught thrown
    """
)
PLURAL_SUBJECTS = listed("both they these those we who which that you others all two")
VERBS = listed(
    """
    accept account add address adjust admit adopt advance affect agree aggregate aim allow alter
    amount answer appear append apply arise arrive ask assume attach backfill balance bear
    become begin behave belong bind block boot break bring buffer build burst buy call cancel
    care carry catch cause cease change charge check choose claim clear climb close code collect
    come command commit compare compete compile complete compute connect contain continue
    control convert copy cost count cover crash create cut cycle deal decay decide declare
    decode decline default defer delay delete deliver deny depart depend derive describe destroy
    detach devise die differ digest disagree disappear disconnect distance divide do draw drain
    drift drop earn echo empty encode encounter end enqueue enter equal escape estimate evaluate
    evict exceed execute exist exit expect expire explain extend fail fall fill find finish fire
    fit fix flood flow flush fold follow forbid force forget fork form format free freeze gain
    gather get give go grant group grow guard guess halt handle hang happen harvest hash have
    hear heat help hide hit hold hurry idle ignore imply improve include increase inherit insert
    install intend join judge jump keep kill know lack land last launch lay lead leak learn
    leave lend let lie lift limit link list listen live load lock log look lose lower maintain
    make map mark matter mean measure meet mention miss mount move multiply name need notice
    notify number observe occupy occur offer open order outlast outlive overflow overlap
    overtake overwrite own pack parse part pass pause pay permit pick place play point poll post
    prefer present press prevent print probe produce promise propose protect prove provide
    publish pull push put queue raise range reach react read receive reclaim recognise recommend
    reconnect record recover reduce refer refuse register reject relate release rely reload
    remain remember remind remove renew repeat replace replay reply report represent request
    require reserve reset resolve respond rest restart restore result resume retry return reveal
    revert revoke rewrite rise round rule run sample save say scale scan schedule score search
    see seem seize select sell send separate serve set settle share shift show shrink shut sign
    skip sleep slow solve sort sound speak specify spend split spread stall stand start starve
    state stay steal stem step stop store stretch subscribe succeed suffice suit sum supply
    support suppose surface survive swap switch take talk tell tend terminate test think
    throttle throw tie type tolerate touch trace track transfer treat trim trust try turn
    understand unlock update use vanish vary verify wait wake walk want warm warn watch wear win
    wish work wrap write yield
    """
)


def third_person(verb: str) -> str:
    """Return the form of a verb behind he, she or it."""
    if re.search(r"(?:s|x|z|ch|sh|o)$", verb):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", verb) else verb + "s"


SINGULAR = frozenset(third_person(verb) for verb in VERBS) | {"has"}
