"""What search engines read of a profile, as JSON-LD in the vocabulary of schema.org."""

from collections.abc import Mapping
from typing import Any


def describe_companion(companion: Mapping[str, Any], url: str, origin: str) -> dict[str, Any]:
    """The services of a companion as an offer, with the rating if there is one."""
    name, photo = companion["first_name"], companion["profile_photo"]
    price = {
        "price": str(companion["hourly_rate"]),
        "priceCurrency": companion["currency"].upper(),
    }
    described: dict[str, Any] = {
        "@context": "https://schema.org",
        "@type": "Service",
        "name": name,
        "url": url,
        "serviceType": companion["service_types"].split(","),
        "areaServed": {"@type": "City", "name": companion["location_city"]},
        "provider": {"@type": "Person", "name": name, "knowsLanguage": companion["languages"]},
        "offers": {
            "@type": "Offer",
            **price,
            "priceSpecification": {"@type": "UnitPriceSpecification", **price, "unitCode": "HUR"},
        },
    }
    if text := companion["tagline"] or companion["bio"]:
        described["description"] = text
    if photo.startswith("media/"):
        described["image"] = f"{origin}/{photo}"
    if companion["total_reviews"]:
        described["aggregateRating"] = {
            "@type": "AggregateRating",
            "ratingValue": str(companion["rating_avg"]),
            "reviewCount": companion["total_reviews"],
        }
    return described
