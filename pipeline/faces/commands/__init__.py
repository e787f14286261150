"""The commands of the command line, by what a person is at; `app` is what they share."""
