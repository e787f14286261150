"""Everything that puts the five stages to work; the names below are the library's front door."""
