"""Search, profiles, calendars, images, imports, reviews."""
