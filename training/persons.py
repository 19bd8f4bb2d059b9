"""Converts what people say of themselves to the third person ("I have my dog" → "Maya has their dog") and to the second ("You
have your dog"). Rules for short English sentences such as annotated traits; knows no model.
"""

from __future__ import annotations

import re

UNCHANGED = frozenset(
    "was were had did can cannot could will would should must may might used ca won't can't couldn't wouldn't shouldn't didn't "
    "wasn't went got made took gave came saw knew thought told found left lost bought brought taught caught felt kept met "
    "sat stood slept spent won wrote read ran began drank sang swam grew flew drove rode broke spoke chose wore ate fell "
    "heard held led paid said sent sold built lent cut put set hit let quit hurt became understood fought drew threw".split()
)
BESIDES = frozenset(
    "also just really never always still often usually sometimes only once recently currently last now then both "
    "actually mostly mainly already even once no".split()
)
VERBS_IN_LY = frozenset("apply comply fly imply multiply rely reply supply".split())


def _table(pairs: str) -> dict[str, str]:
    """Words and what becomes of them: "my/their,me/them"."""
    return dict(pair.split("/") for pair in pairs.split(","))


IRREGULAR = _table("am/is,have/has,do/does,don't/doesn't,dont/doesn't,go/goes,haven't/hasn't")
SHORT = {"i'm": "is", "i've": "has", "i'd": "would", "i'll": "will"}
OBJECTS = _table(
    "my/their,me/them,mine/theirs,myself/themselves,our/their,us/them,we/they,i/they,i'm/they are,i've/they have,"
    "i'd/they would,i'll/they will,am/is,we're/they are,we've/they have,ours/theirs"
)
ASIDE = frozenset("also just really never always still and but".split())  # do not take a verb of their own
TO_SECOND = _table(
    "i/you,me/you,my/your,mine/yours,myself/yourself,am/are,i'm/you're,i've/you've,i'd/you'd,i'll/you'll,was/were,"
    "we/you,our/your,us/you"
)


def third_person(fact: str, name: str) -> str:
    """A fact in the first person as a sentence about ``name``; one in the third person stays as it is."""
    words = fact.strip().rstrip(".!").split()
    if not words:
        return ""
    first, rest = words[0].casefold().replace("’", "'"), words[1:]
    if first in SHORT:
        begin = [name, SHORT[first]]
    elif first == "i":
        besides = next((n for n, word in enumerate(rest) if not _besides(word.casefold())), 0)
        begin, rest = [name, *rest[:besides]], rest[besides:]
        if rest:
            begin, rest = [*begin, conjugated(rest[0])], rest[1:]
    elif first == "my":
        begin = [f"{name}'s"]
    else:
        begin = [words[0]]
    said = " ".join([*begin, *(_other(word) for word in rest)])
    return re.sub(r"\bthey is\b", "they are", said) + "."


def _besides(word: str) -> bool:
    return word in BESIDES or (word.endswith("ly") and word not in VERBS_IN_LY)


def conjugated(verb: str) -> str:
    """A verb as it follows "I", as it follows a name."""
    low = verb.casefold().replace("’", "'")
    if low in IRREGULAR:
        return IRREGULAR[low]
    if (
        low in UNCHANGED
        or (low.endswith("ed") and not re.search(r"(?:^n|^f|^sp|^br|^bl|c)eed$", low))
        or not low.isalpha()
    ):
        return verb
    if re.search(r"(?:s|x|z|ch|sh|o)$", low):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search(r"[^aeiou]y$", low) else f"{verb}s"


def _other(word: str) -> str:
    bare = re.sub(r"[^\w'’]+$", "", word)
    if bare == "US":
        return word
    return OBJECTS.get(bare.casefold().replace("’", "'"), bare) + word[len(bare) :]


def second_person(text: str) -> str:
    """Turn what somebody says of themselves into what is said to them: "I have my dog" → "You have your dog"."""
    words, turned, subject = text.split(), [], ""
    for word in words:
        bare = re.sub(r"[^\w']+$", "", word)
        tail, low = word[len(bare) :], bare.casefold().replace("’", "'")
        new = TO_SECOND.get(low)
        if low == "was" and subject not in ("i", "you"):
            new = None
        if low == "am" and subject not in ("i", "and", "but", ""):
            new = None
        if low in ("i", "i'm", "i've", "i'd", "i'll"):
            subject = "i"
        elif re.match(r"[A-Za-z]+$", low) and low not in ASIDE:
            subject = low
        turned.append((new or bare) + tail)
    joined = " ".join(turned)
    return joined[:1].upper() + joined[1:] if text[:1].isupper() else joined


def asked_back(question: str) -> str:
    """A question about oneself as one about the other: "Where do I live?" → "Where do you live?"."""
    turned = re.sub(r"\b([Aa])m I\b", r"\1re you", re.sub(r"\b([Ww])as I\b", r"\1ere you", question))
    return second_person(turned)
