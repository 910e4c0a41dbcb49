# SPDX-License-Identifier: Apache-2.0
"""Tells whether a sentence that begins with an adverbial phrase goes on to a main clause.

"Until the lease ends." never says what happens until then. The judge reads words, not grammar: it
keeps a stack of the clauses that were opened and gives each finite verb to the innermost one that
has none. It errs towards letting a sentence pass, so a sentence that it refuses is a fragment, or
has a verb that english.py does not list.
"""

from __future__ import annotations

import re

from tests.english import (
    ALSO_NOUNS,
    AUXILIARIES,
    DEGREES,
    DETERMINERS,
    EITHER,
    PAST,
    PAST_OR_PARTICIPLE,
    PLURAL_SUBJECTS,
    PREPOSITIONS,
    PRONOUNS,
    SINGULAR,
    SUBORDINATORS,
    VERBS,
)

OPENERS = PREPOSITIONS | EITHER | (SUBORDINATORS - {"that"})
BEFORE_OPENERS = {"only", "just", "not", "even", "once", "so", "over"}
JOINS = {"and", "or", "nor", "but", "of", "not", "than", "almost", "nearly", "only", "just"}
"""Words behind which a determiner does not begin the subject of another clause."""
NO_NOUNS = AUXILIARIES | DETERMINERS | PREPOSITIONS | EITHER
SENTENCE = re.compile(r"[.;:!?](?=\s|$)|\n\s*\n")
TOKEN = re.compile(r"[A-Za-z][\w'-]*|[\d.]*\d\S*|,")
NEVER_BEFORE_A_VERB = (
    (PREPOSITIONS | EITHER | SUBORDINATORS | {"to", "the", "a", "an", "its", "their"})
    | {"his", "no", "every", "many", "few", "these", "those", "such", "own", "same"}
) - {"that", "what", "which", "who", "whoever"}
BEFORE_BASE_FORM = PLURAL_SUBJECTS | {",", "", "then", "on", "only", "never", "always", "also"}
AFTER_PARTICIPLE = PREPOSITIONS - {"for", "out", "on"}


def first_sentence(text: str) -> str:
    """The text up to its first full stop, colon, semicolon or empty line; code is one word."""
    plain = re.sub(r"`[^`]*`|\"[^\"]*\"", "code", text)
    return SENTENCE.split(re.sub(r"\([^)]*\)", "", plain), maxsplit=1)[0]


def is_verb(words: list[str], at: int, *, wanted: bool = False) -> bool:
    """True if a word can be a finite verb where it stands, by its form and its neighbours.

    `wanted`: a subordinate clause still waits for its verb, so "that the kernel logged in" has one.
    """
    word = words[at]
    before = words[at - 1] if at else ""
    after = words[at + 1] if at + 1 < len(words) else ""
    if word in SINGULAR or word in ALSO_NOUNS:
        return before not in NEVER_BEFORE_A_VERB
    if word in AUXILIARIES or word in PAST:
        return before not in {"to", "the", "a", "an"}
    if word in VERBS and (before in BEFORE_BASE_FORM or plural(before)):
        return before != "that" or words[at - 2 : at - 1] == [] or words[at - 2] not in PREPOSITIONS
    if word in PAST_OR_PARTICIPLE or word.endswith("ed"):
        ends = after in AFTER_PARTICIPLE | {"", ",", "and", "or"}
        return follows_subject(before) and (wanted or not ends)
    return False


def plural(word: str) -> bool:
    """True if the word looks like a noun in the plural."""
    return word.endswith("s") and not word.endswith(("ss", "'s")) and word not in NO_NOUNS


def follows_subject(before: str) -> bool:
    """True if the word before a past form can be its subject, not its auxiliary or article."""
    return before not in AUXILIARIES | PREPOSITIONS | {"", ",", "be", "been", "being", "the", "a"}


def opens_clause(words: list[str], at: int) -> bool:
    """True if a word of EITHER has one noun phrase and then a verb behind it."""
    if words[at + 1 : at + 2] and words[at + 1] in DEGREES:
        return False
    for index in range(at + 1, len(words)):
        word, before = words[index], words[index - 1]
        if word == "," or (word in SUBORDINATORS - {"that"}):
            return False
        if word == "that" and subordinates(words, index):
            return False
        if is_verb(words, index):
            return True
        begins = word in DETERMINERS and index > at + 1
        if begins and before not in JOINS | PREPOSITIONS | EITHER | (DETERMINERS - PRONOUNS):
            return False
    return False


def subordinates(words: list[str], at: int) -> bool:
    """True if the word opens a clause below the one that it stands in."""
    word, before = words[at], words[at - 1] if at else ""
    if word == "that":
        return before not in PREPOSITIONS | EITHER | SUBORDINATORS | {"and", ","}
    return word in SUBORDINATORS or (word in EITHER and opens_clause(words, at))


def has_main_clause(sentence: str) -> bool:
    """True if any finite verb is left for the clause that no subordinator opened."""
    words = [word.lower().replace("\u2019", "'") for word in TOKEN.findall(sentence)]
    waiting = [True]
    joined = False
    for at, word in enumerate(words):
        if word == ",":
            while len(waiting) > 1 and not waiting[-1]:
                waiting.pop()
        elif subordinates(words, at):
            if not (joined and waiting[-1] and len(waiting) > 1):
                waiting.append(True)
        elif is_verb(words, at, wanted=len(waiting) > 1 and waiting[-1]):
            while len(waiting) > 1 and not waiting[-1] and not joined:
                waiting.pop()
            waiting[-1] = False
        joined = word in {"and", "or", "but", "nor"} or (joined and not is_verb(words, at))
        if not waiting[0]:
            return True
    return False


def is_fragment(text: str) -> bool:
    """True if the first sentence begins with an adverbial phrase and has no main clause."""
    sentence = first_sentence(text)
    words = [word.lower() for word in TOKEN.findall(sentence)[:2]]
    if not text[:1].isupper() or not words or text[len(sentence) :].startswith("?"):
        return False
    first, second = words[0], words[-1]
    opened = first in OPENERS or (first in BEFORE_OPENERS and second in OPENERS | DEGREES)
    return opened and not has_main_clause(sentence)
