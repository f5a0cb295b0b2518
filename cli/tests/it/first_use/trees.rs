//! Task trees: verdicts, reasons, histories, branches that go.
