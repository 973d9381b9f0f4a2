"""Shell and config mistakes: what bash or the config reader makes of the text, before ms-swift sees it."""
