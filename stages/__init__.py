"""The five steps of a recall and the words they share; pure rules that import no driver, no clock and no telemetry."""
