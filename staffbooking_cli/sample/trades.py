"""Trades of the sample marketplace, with rates, hours, taglines and bios."""

from __future__ import annotations

from attrs import frozen


@frozen
class Trade:
    """A trade with its rate, hours and texts."""

    name: str
    hourly_rate: int
    """The rate in New York, in major units of the currency."""
    hours_name: str
    """A key of `WEEKLY_HOURS`."""
    other_services: tuple[str, ...]
    """Services that a companion of this trade may offer as well."""
    taglines: tuple[str, ...]
    bios: tuple[str, ...]
    """Templates with {city} and {years}."""


WEEKLY_HOURS: dict[str, tuple[tuple[int, str, str], ...]] = {
    "any": (),
    "office": tuple((day, "09:00", "18:00") for day in range(5)),
    "days": tuple((day, "08:00", "20:00") for day in range(6)),
    "afternoons": tuple((day, "12:00", "22:00") for day in range(1, 6)),
    # Nights go past midnight: the two slots join.
    "nights": (
        *((day, "17:00", "24:00") for day in (2, 3, 4, 5)),
        *((day, "00:00", "03:00") for day in (3, 4, 5, 6)),
    ),
    "weekends": (
        (4, "16:00", "24:00"),
        (5, "00:00", "24:00"),
        (6, "00:00", "22:00"),
    ),
}
"""Weekly hours by name: weekday (Monday is 0), start, end. An empty tuple: always free."""

TRADES = (
    Trade(
        "Bartender",
        55,
        "nights",
        ("Waiter", "Barista"),
        (
            "Classic cocktails, calm hands, no queue",
            "Your bar, stocked, staffed and sparkling",
            "Signature drinks named after your guests",
        ),
        (
            "I have tended bars in {city} for {years} years, from hotel lounges to roof terraces. "
            "Send me your guest list and I will plan the drinks, the ice and the glassware.",
            "After {years} years behind busy counters in {city} I now work at private events. "
            "I bring my own tools, and alcohol-free drinks that nobody feels second-best with.",
        ),
    ),
    Trade(
        "Waiter",
        38,
        "afternoons",
        ("Bartender", "Host"),
        (
            "Silver service with a light touch",
            "Plates warm, glasses full, guests at ease",
            "Banquets, receptions and everything on a tray",
        ),
        (
            "Trained in fine dining in {city}, I have served weddings, galas and board dinners "
            "for {years} years. Plated, buffet or flying: tell me the format and the head count.",
            "{years} years of service have taught me to be everywhere and in nobody's way. "
            "I know most venues in {city}, their kitchens and their stairs.",
        ),
    ),
    Trade(
        "Host",
        42,
        "days",
        ("Waiter", "Interpreter"),
        (
            "The first face that your guests see",
            "Registration desks without a queue",
            "Warm welcomes, names remembered",
        ),
        (
            "I welcome, register and guide guests at fairs and conferences in {city}. "
            "In {years} years I have not lost a badge, a coat or my patience.",
            "From red carpets to trade fairs, I have been at the door in {city} for {years} years. "
            "Happy to brief your whole front-of-house team.",
        ),
    ),
    Trade(
        "Security",
        48,
        "nights",
        ("Host",),
        (
            "Discreet protection for events of any size",
            "Licensed, calm and on time",
            "Doors, crowds and VIPs, handled quietly",
        ),
        (
            "Licensed event security with {years} years of work at concerts, shops and private "
            "parties in {city}. First aid certified; I prefer talking to anything else.",
            "I look after doors, guests and late nights in {city}. {years} years in the trade, "
            "with references from galleries, embassies and clubs.",
        ),
    ),
    Trade(
        "Photographer",
        110,
        "days",
        ("Videographer",),
        (
            "Honest pictures of real moments",
            "A first selection the same night",
            "Events, portraits and products in natural light",
        ),
        (
            "I photograph conferences, weddings and product launches in {city}, and have done so "
            "for {years} years. You get an edited gallery within three days.",
            "{years} years with a camera in {city}: press work first, celebrations since. "
            "I work with two bodies, fast lenses and no flash unless you ask for it.",
        ),
    ),
    Trade(
        "DJ",
        95,
        "weekends",
        ("AV technician",),
        (
            "From dinner jazz to a full dance floor",
            "Reads the room, keeps the volume kind",
            "Vinyl heart, digital safety net",
        ),
        (
            "I have played clubs and weddings in {city} for {years} years. We make a list of musts "
            "and never-evers together, and the rest follows the room.",
            "House, soul and everything that your aunt can dance to. {years} years of nights in "
            "{city}, own equipment for up to 200 guests.",
        ),
    ),
    Trade(
        "Chef",
        85,
        "afternoons",
        ("Event manager",),
        (
            "Seasonal menus cooked in your kitchen",
            "Private dinners for two or for sixty",
            "Market in the morning, table in the evening",
        ),
        (
            "I cooked in restaurants in {city} for {years} years before I took my knives on the "
            "road. I shop, cook, serve and leave your kitchen cleaner than I found it.",
            "Vegetables first, then everything else. With {years} years at the stove in {city} "
            "I plan menus around seasons, allergies and your budget.",
        ),
    ),
    Trade(
        "Event manager",
        90,
        "office",
        ("Host",),
        (
            "Run sheets that survive the day",
            "One calm person who knows where everything is",
            "From first idea to last van",
        ),
        (
            "In {years} years I have run product launches, summer parties and summits in {city}. "
            "I bring a plan, a second plan and a network of people who turn up.",
            "Budgets, permits, suppliers and the weather: I have juggled them in {city} for "
            "{years} years. Give me the date and I will give you a schedule.",
        ),
    ),
    Trade(
        "Barista",
        40,
        "office",
        ("Waiter",),
        (
            "Coffee that stops people in the corridor",
            "A proper espresso bar at your fair",
            "Latte art, no fuss, no queue",
        ),
        (
            "I bring a two-group machine and beans from roasters in {city}. For {years} years I "
            "have served offices, fairs and film sets, up to 120 cups an hour.",
            "Trained at one of the first specialty bars of {city}, {years} years ago. "
            "Oat milk, decaf and good manners are included.",
        ),
    ),
    Trade(
        "Sommelier",
        100,
        "nights",
        ("Waiter",),
        (
            "Wine pairings without the lecture",
            "Good bottles for your menu and your budget",
            "Tastings that people remember",
        ),
        (
            "Certified sommelier, {years} years on the floor of dining rooms in {city}. I choose "
            "with you, serve with care and tell stories only if somebody asks.",
            "I lead tastings and serve at dinners in {city}. In {years} years I have learned that "
            "the best wine is the one that is at the right temperature.",
        ),
    ),
    Trade(
        "AV technician",
        70,
        "days",
        ("Videographer",),
        (
            "Sound, light and slides that simply work",
            "Hybrid events without the awkward silence",
            "Cables taped, batteries charged",
        ),
        (
            "I set up and run sound, projection and streaming at conferences in {city}. {years} "
            "years in, I still carry a spare of everything.",
            "Stage sound, simple light shows and clean live streams: {years} years of experience, "
            "and I know the loading docks of {city}.",
        ),
    ),
    Trade(
        "Interpreter",
        105,
        "office",
        ("Host",),
        (
            "Your meeting, understood on both sides",
            "Consecutive and whispered interpreting",
            "Contracts, factories and dinner tables",
        ),
        (
            "I interpret at negotiations, visits and trade fairs in {city}, and prepare every "
            "assignment with a glossary. {years} years in the profession.",
            "A conference interpreter for {years} years, based in {city}. Send me slides and "
            "names the day before and nobody will notice that I am there.",
        ),
    ),
    Trade(
        "Videographer",
        115,
        "days",
        ("Photographer",),
        (
            "Short films of long days",
            "A highlight cut within 48 hours",
            "Steady hands, good sound, quick edits",
        ),
        (
            "I film conferences, weddings and campaigns in {city}: one operator or a small crew. "
            "{years} years of deadlines have made me fast in the edit.",
            "Documentary training, {years} years of events in {city}. I light little, listen a "
            "lot and deliver in every format that you need.",
        ),
    ),
)
