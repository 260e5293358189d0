"""Cities of the sample marketplace, with names and languages of their people."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen


@frozen
class City:
    """A city of the sample marketplace."""

    name: str
    country: str
    timezone: str
    price_level: float
    """Hourly rates relative to New York, which is 1."""
    name_pool: str
    """A key of `NAME_POOLS`."""


@frozen
class NamePool:
    """Names and languages of the people of some cities."""

    languages: tuple[str, ...]
    """Everybody speaks the first one; some speak more."""
    first_names: tuple[str, ...]
    """Half of them women's names, then men's."""
    last_names: tuple[str, ...]


_CITY_LINES = """
Lisbon | Portugal | Europe/Lisbon | 0.55 | portuguese
Porto | Portugal | Europe/Lisbon | 0.50 | portuguese
Madrid | Spain | Europe/Madrid | 0.60 | spanish
Barcelona | Spain | Europe/Madrid | 0.65 | spanish
Paris | France | Europe/Paris | 0.85 | french
Nice | France | Europe/Paris | 0.75 | french
London | United Kingdom | Europe/London | 0.95 | british
Edinburgh | United Kingdom | Europe/London | 0.75 | british
Dublin | Ireland | Europe/Dublin | 0.80 | irish
Berlin | Germany | Europe/Berlin | 0.75 | german
Munich | Germany | Europe/Berlin | 0.85 | german
Vienna | Austria | Europe/Vienna | 0.75 | german
Zurich | Switzerland | Europe/Zurich | 1.20 | german
Amsterdam | Netherlands | Europe/Amsterdam | 0.80 | dutch
Copenhagen | Denmark | Europe/Copenhagen | 0.95 | nordic
Stockholm | Sweden | Europe/Stockholm | 0.90 | nordic
Warsaw | Poland | Europe/Warsaw | 0.45 | polish
Prague | Czechia | Europe/Prague | 0.45 | czech
Rome | Italy | Europe/Rome | 0.65 | italian
Milan | Italy | Europe/Rome | 0.75 | italian
Athens | Greece | Europe/Athens | 0.50 | greek
Istanbul | Turkey | Europe/Istanbul | 0.40 | turkish
Dubai | United Arab Emirates | Asia/Dubai | 0.80 | arab
Cairo | Egypt | Africa/Cairo | 0.30 | arab
Nairobi | Kenya | Africa/Nairobi | 0.30 | kenyan
Lagos | Nigeria | Africa/Lagos | 0.30 | nigerian
Cape Town | South Africa | Africa/Johannesburg | 0.40 | south_african
Mumbai | India | Asia/Kolkata | 0.30 | indian
Bengaluru | India | Asia/Kolkata | 0.28 | indian
Singapore | Singapore | Asia/Singapore | 0.85 | singaporean
Bangkok | Thailand | Asia/Bangkok | 0.35 | thai
Tokyo | Japan | Asia/Tokyo | 0.75 | japanese
Osaka | Japan | Asia/Tokyo | 0.65 | japanese
Seoul | South Korea | Asia/Seoul | 0.65 | korean
Sydney | Australia | Australia/Sydney | 0.90 | australian
Melbourne | Australia | Australia/Melbourne | 0.85 | australian
Auckland | New Zealand | Pacific/Auckland | 0.75 | australian
New York | United States | America/New_York | 1.00 | american
Miami | United States | America/New_York | 0.85 | american
Chicago | United States | America/Chicago | 0.85 | american
Denver | United States | America/Denver | 0.80 | american
Los Angeles | United States | America/Los_Angeles | 0.95 | american
Toronto | Canada | America/Toronto | 0.80 | canadian
Montreal | Canada | America/Toronto | 0.75 | quebecois
Mexico City | Mexico | America/Mexico_City | 0.40 | latin
São Paulo | Brazil | America/Sao_Paulo | 0.40 | brazilian
Buenos Aires | Argentina | America/Argentina/Buenos_Aires | 0.35 | latin
"""

_NAME_POOL_TEXTS = {
    "portuguese": (
        "Portuguese English Spanish",
        "Inês Beatriz Mariana Leonor Carolina João Tiago Diogo Rui Gonçalo",
        "Almeida Carvalho Ferreira Lopes Marques Moreira Pinto Ribeiro Sousa Teixeira",
    ),
    "spanish": (
        "Spanish English Catalan",
        "Lucía Marta Elena Nuria Alba Javier Pablo Álvaro Sergio Iker",
        "Alonso Castillo Delgado Gil Herrera Molina Navarro Ortega Serrano Vidal",
    ),
    "french": (
        "French English Italian",
        "Camille Chloé Manon Juliette Élise Hugo Théo Antoine Bastien Lucas",
        "Bernard Chevalier Dubois Fontaine Garnier Lambert Mercier Moreau Perrin Roussel",
    ),
    "british": (
        "English French",
        "Charlotte Imogen Poppy Rosie Freya Oliver Harry Callum Rhys Alistair",
        "Ashworth Barlow Campbell Davies Fletcher Hughes MacLeod Pritchard Thornton Whitaker",
    ),
    "irish": (
        "English Irish",
        "Aoife Niamh Ciara Sinéad Orla Cian Conor Eoin Fionn Oisín",
        "Brennan Byrne Doyle Gallagher Kavanagh Murphy Nolan O’Connor Quinn Sheridan",
    ),
    "german": (
        "German English French",
        "Johanna Lena Franziska Katharina Marie Jonas Felix Maximilian Lukas Moritz",
        "Bauer Engel Hartmann Huber Keller Lindner Richter Schuster Vogel Winkler",
    ),
    "dutch": (
        "Dutch English German",
        "Sanne Lotte Femke Anouk Maud Daan Bram Sem Thijs Ruben",
        "Bakker Dekker Jansen Kuipers Mulder Postma Smit Verhoeven Visser Willems",
    ),
    "nordic": (
        "English Swedish Danish",
        "Astrid Freja Ingrid Linnea Sofie Anders Emil Lars Magnus Oskar",
        "Andersen Bergström Dahl Eriksson Holm Jensen Lindqvist Nyström Sørensen Wikström",
    ),
    "polish": (
        "Polish English German",
        "Agnieszka Zofia Hanna Kinga Magda Jakub Kacper Mateusz Paweł Tomasz",
        "Adamczyk Kaczmarek Kowalczyk Mazur Nowak Pawlak Stępień Walczak Wójcik Wrona",
    ),
    "czech": (
        "Czech English German",
        "Adéla Eliška Kateřina Lenka Tereza Jakub Matěj Ondřej Petr Vojtěch",
        "Janů Jirků Kočí Krejčí Martinů Pavlů Petrů Tomšů Vaňků Zíta",
    ),
    "italian": (
        "Italian English French",
        "Chiara Giulia Francesca Martina Sofia Alessandro Davide Lorenzo Matteo Riccardo",
        "Barbieri Conti Esposito Ferrara Galli Marino Parisi Rinaldi Santoro Vitale",
    ),
    "greek": (
        "Greek English",
        "Eleni Katerina Danae Ioanna Myrto Andreas Dimitris Giorgos Nikos Stavros",
        "Alexandrou Christou Economou Ioannou Konstantinou Nikolaou Papageorgiou "
        "Papadimitriou Stavrou Vasileiou",
    ),
    "turkish": (
        "Turkish English",
        "Ayşe Defne Elif Zeynep Ece Emre Kerem Mert Ozan Tolga",
        "Aksoy Arslan Aydemir Demir Güler Kaya Korkmaz Öztürk Şahin Yücel",
    ),
    "arab": (
        "Arabic English French",
        "Amira Dalia Layla Nour Yasmin Hassan Karim Omar Tarek Youssef",
        "Abbas Darwish Fahmy Haddad Khalil Mansour Nasser Rashid Saleh Zaki",
    ),
    "kenyan": (
        "English Swahili",
        "Achieng Faith Grace Njeri Wanjiru Brian Kamau Kevin Odhiambo Samuel",
        "Kamau Kariuki Kimani Mutua Mwangi Njoroge Ochieng Omondi Otieno Wambui",
    ),
    "nigerian": (
        "English Yoruba Igbo",
        "Adaeze Chioma Funke Ngozi Temi Chidi Emeka Femi Kunle Tunde",
        "Adebayo Adeyemi Balogun Eze Nwosu Obi Okafor Okonkwo Oladipo Olawale",
    ),
    "south_african": (
        "English Afrikaans Xhosa",
        "Anele Lerato Naledi Thandi Zanele Bongani Johan Pieter Sipho Themba",
        "Botha Dlamini Jacobs Khumalo Mokoena Naidoo Nkosi Pillay Steyn Zulu",
    ),
    "indian": (
        "English Hindi Marathi",
        "Aditi Ananya Kavya Meera Priya Arjun Karan Nikhil Rahul Vikram",
        "Agarwal Bhat Desai Gupta Iyer Kulkarni Mehta Nair Rao Sharma",
    ),
    "singaporean": (
        "English Mandarin Malay",
        "Aisyah Huimei Liting Rachel Shumin Daniel Farid Junwei Kai Ravi",
        "Chua Goh Ibrahim Koh Lee Lim Ng Ong Rahman Tan",
    ),
    "thai": (
        "Thai English",
        "Achara Kanya Malee Ploy Suda Anan Chai Krit Niran Somchai",
        "Boonmee Chaiyasit Jaidee Kittisak Prasert Rattana Saelim Siriporn Thongchai Wongsa",
    ),
    "japanese": (
        "Japanese English",
        "Aiko Emi Haruka Mio Yuki Daichi Haruto Kenta Ren Takumi",
        "Fujimoto Hayashi Ishikawa Kobayashi Matsuda Nakamura Ogawa Saito Tanaka Yamada",
    ),
    "korean": (
        "Korean English",
        "Eunji Hana Jiwoo Minseo Soyeon Donghyun Hyunwoo Jihoon Minjun Seojun",
        "Choi Han Jang Jung Kang Kim Lim Park Shin Yoon",
    ),
    "australian": (
        "English Italian",
        "Amelia Georgia Isla Matilda Tahlia Angus Cooper Hamish Lachlan Riley",
        "Bailey Carter Doherty Ellis Fraser Hughes McKenzie Nguyen Pearce Walsh",
    ),
    "american": (
        "English Spanish",
        "Alyssa Brooke Danielle Jasmine Naomi Andre Brandon Marcus Tyler Xavier",
        "Alvarez Bennett Coleman Foster Hayes Jackson Mitchell Rivera Sullivan Washington",
    ),
    "canadian": (
        "English French",
        "Claire Hailey Megan Priya Sophie Connor Ethan Liam Noah Wesley",
        "Chen Fraser Gill Hamilton MacDonald Patel Reid Sinclair Stewart Wong",
    ),
    "quebecois": (
        "French English",
        "Amélie Catherine Élodie Maude Rosalie Alexis Étienne Félix Olivier Samuel",
        "Bélanger Bouchard Côté Desjardins Gagnon Lavoie Ouellet Pelletier Roy Tremblay",
    ),
    "latin": (
        "Spanish English",
        "Camila Daniela Fernanda Valentina Ximena Diego Emiliano Joaquín Mateo Santiago",
        "Aguirre Cabrera Domínguez Flores Guzmán Juárez Medina Peralta Rojas Villalobos",
    ),
    "brazilian": (
        "Portuguese English Spanish",
        "Ana Bruna Isabela Larissa Rafaela Caio Felipe Gustavo Thiago Vinícius",
        "Araújo Barbosa Cardoso Correia Gomes Martins Nascimento Oliveira Rocha Santana",
    ),
}


def _parse_city(line: str) -> City:
    city, country, timezone, level, people = map(str.strip, line.split("|"))
    return City(city, country, timezone, float(level), people)


CITIES = tuple(_parse_city(line) for line in _CITY_LINES.strip().splitlines())

NAME_POOLS: Mapping[str, NamePool] = MappingProxyType(
    {
        name: NamePool(*(tuple(text.split()) for text in texts))
        for name, texts in _NAME_POOL_TEXTS.items()
    }
)
