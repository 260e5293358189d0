# ruff: noqa: RUF001 - other alphabets have letters that look like Latin ones

"""The default list of blocked terms: glin-profanity's lists without everyday words.

Only languages whose lists were reviewed word by word are included. The other lists (Turkish,
Dutch, Arabic, Japanese ...) contain more everyday words than vulgar ones.
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

_LANGUAGES = (
    "english french german italian spanish portuguese polish russian chinese korean".split()
)

_TOO_SHORT_PATTERN = re.compile(r"[\u3400-\u9fff]\w?|[\uac00-\ud7a3]")
"""Terms of scripts without spaces that are too short to match anywhere: 今日|你好."""


def default_terms() -> list[str]:
    """The default blocked terms. Raises FileNotFoundError if glin-profanity is missing."""
    return [term for term in listed_terms() if not _is_harmless(term)] + ADDED_TERMS


def listed_terms() -> list[str]:
    """All terms of the languages' lists."""
    return [term.strip() for language in _LANGUAGES for term in _read_dictionary(language)]


def _is_harmless(term: str) -> bool:
    return term.casefold() in HARMLESS_TERMS or _TOO_SHORT_PATTERN.fullmatch(term) is not None


def _read_dictionary(language: str) -> list[str]:
    # Read the file only: importing the package would load unused scanners.
    package = find_spec("glin_profanity")
    if package is None or package.origin is None:
        raise FileNotFoundError("glin-profanity is not installed")
    file = Path(package.origin).parent / "data" / "dictionaries" / f"{language}.json"
    words: list[str] = json.loads(file.read_text(encoding="utf-8"))["words"]
    return words


def _split_terms(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split(",")]


ADDED_TERMS = _split_terms("""
    a dick, my dick, your dick, ur dick, his dick, suck dick, dick pic, dick pics, be a dick,
    big dick, cum on my, cum in my, make me cum, cumshot, dickhead, dickface, douchebag, whore,
    wanker, motherfucking, pussies, sh it, fck, fcking, fick dich, arschlöcher, salaud, enculer,
    putas, puto, cabrones, spierdalaj, сука, суки, пизда, пиздец, заебал, ебаный, мудак, блять,
    хуя, хуе, хуем, хуйня, нахуй, похуй, 傻逼, 操你妈, 操你媽, 幹你娘
""")
"""Terms that the lists lack, and phrases with words that are blocked only in them."""

HARMLESS_TERMS = frozenset(
    word.casefold()
    for word in _split_terms("""
    bareback, barenaked, bastinado, beaver cleaver, big black, blonde action, bs, booby, butt,
    cleveland steamer, cocked, cocker, cockers, cocking, cocky, coon, coons, cornhole, cum,
    cumming, dick, domination, escort, eunuch, fecal, fingering, fuck buttons, genitals, girl on,
    girl on top, god damn, grope, guro, hard core, hardcore, hoe, hooker, hot chick, how to kill,
    how to murder, huge fat, intercourse, jelly donut, kinky, leather restraint, lemon party,
    lolita, make me come, mf, mr hands, negro, nude, nudity, octopussy, panty, pegging, playboy,
    pleasure chest, poof, poon, quim, retard, rimming, santorum, scat, scissoring, semen, sexo,
    shota, shrimping, simp, shite, skeet, slutt, snatch, snowballing, spic, spread legs, spunk,
    strap on, suck, sucks, suicide girls, sultry women, swastika, swinger, s&m, tainted love,
    taste my, throating, tied up, tight white, tit, tongue in a, twinkie, undressing, violet wand,
    white power, twatt, wrapping men, xx, xxx, testbad01,

    baiser, bander, bite, bitte, bordel, bosser, bourré, bourrée, caca, cailler, chatte, con,
    conne, cul, déconne, déconner, drague, folle, gerbe, gerber, grande folle, gueule, jouir,
    malpt, meuf, pédale, péter, pipi, pute, ramoner, suce, tanche, tapette, teuch, teuf, trique,
    troncher, veuve, zizi, étron,

    bimbo, bimbos, bonze, bratze, bumsen, fratze, fick, ische, kimme, lümmel, mufti, muschi,
    möpse, nackt, nippel, pimpern, popel, poppen, rosette, schabracke, schiesser, schnackeln,
    vögeln,

    anale, bagnarsi, balle, battere, battona, biga, boiata, bordello, brinca, buona donna, busone,
    cadavere, cagna, cammello, cappella, carciofo, carità, casci, checca, chiappa, cornuto, cozza,
    culattina, duro, fava, femminuccia, fica, figa, figlio di buona donna, figone, finocchio,
    fuori come un balcone, goldone, grilletto, guanto, guardone, ingoio, l'arte bolognese,
    lecchino, loffa, lumaca, manico, mannaggia, mona, monta, montare, mussa, nave scuola, nudo,
    padulo, palle, palloso, patacca, pecorina, pesce, picio, pipa, pippone, pipì, pisello,
    pistola, pistolotto, pomiciare, pompa, porca, porca miseria, porco due, porco zio, potta,
    quaglia, recchione, regina, rizzarsi, rompiballe, ruffiano, sbattere, sbattersi, scopare,
    scopata, sega, slinguare, soccia, socmel, sorca, spagnola, sticchio, sveltina, terrone, tette,
    tirare, topa, troia, trombare, uccello, vacca, vangare, venire, zinne, zio cantante,

    asesinato, asno, bastardo, chupada, chupetón, coño, concha, drogas, esperma,
    fiesta de salchichas, haciendo el amor, heroína, idiota, imbécil, infierno, maciza, maldito,
    marica, martillo, nazi, orina, pedo, pervertido, pezón, pinche, pis, racista, sádico,
    travesti, tía buena, trio, verga,

    aborto, amador, aranha, ariano, bicha, biscate, bissexual, bumbum, burro, cabrao, cacete,
    camisinha, cerveja, chupar, cocaína, comer, cona, consolo, corno, cu, dar o rabo, dum raio,
    frango assado, gozar, heterosexual, homem gay, homoerótico, homosexual, inferno, lésbica,
    mama, passar um cheque, pau, pinto, porra, queca, saco, torneira, transar, veado, xana,

    burdel, cyc, debil, dmuchać, duperele, jajco, jajeczko, jajko, jajo, lizać pałę, pieprzyć,
    pierdoła, rzygać, suka, syf,

    bychara, byk, gol, padlo, pedik, perdet, petuh, sukin syn, uboy, vafl'a, vafli lovit, бардак,
    бугор, голый, другой дразнится, играть на кожаной флейте, какая разница,
    каждый дрочит как он хочет, курите мою трубку, лысого в кулаке гонять, мент, муда, на фиг,
    обнаженный, офигеть, половое сношение, сиски, фига, хапать, хохол, хрен,

    13., 13点, 十三点, 个老子的, 他奶奶, 他奶奶的, 他妈地, 她妈的, 她妈地, 她马的, 妈妈的, 小肉粒,
    小鸡鸡, 它妈的, 想上你, 性无能, 你全家, 你奶奶的, 你是鸡, 你是鸭, 干七八, 打飞机,

    거유, 고자, 근친, 노모, 로리타, 망가, 몰카, 미친, 변태, 보지, 불알, 섹스, 스와핑, 애자, 야사,
    에로, 엄창, 염병, 유모, 육갑, 자위, 자지, 하드코어, 호로, 후장
    """)
)
"""Listed terms and inflections that are harmless in some context: a word of another language, a
name, a technical term, or a word needed for a report."""
