//! Numbers a person reads at a glance.

use std::time::Duration;

use pleach_core::budget::{Amount, dollars};

/// `850ms`, `4.2s`, `3m 07s`, `1h 02m`.
pub fn duration(length: Duration) -> String {
    let millis = length.as_millis();
    let seconds = length.as_secs();
    match seconds {
        0 => format!("{millis}ms"),
        // Rounding up to the next unit would show 60.0s.
        1..60 => format!("{}.{}s", seconds, millis % 1000 / 100),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// `950`, `12.3k`, `4.5M`.
pub fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// `12.3 GiB`.
pub fn bytes(count: u64) -> String {
    let (unit, name) = match count {
        0..0x10_0000 => (1 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    format!("{}.{} {name}", count / unit, count % unit * 10 / unit)
}

/// `$1.25`; `~$1.25` where some of it is estimated; `?` where no price is known, `$1.25 + ?` where some are; `not billed`
/// where a login has paid for it, `$1.25 + not billed` where it has for some; nothing where nothing has cost anything.
pub fn cost(amount: &Amount) -> String {
    if amount.unbilled > 0 {
        let billed = Amount { usd: amount.usd - amount.unbilled_usd, unbilled: 0, ..*amount };
        // What a turn of a login would cost is of no interest, nor is that nobody knows.
        return if amount.unbilled < amount.turns && billed.usd > 0.0 {
            format!("{} + not billed", cost(&Amount { unpriced: 0, ..billed }))
        } else {
            "not billed".to_owned()
        };
    }
    let about = if amount.estimated > 0 { "~" } else { "" };
    match (amount.known_usd(), amount.unpriced) {
        (None, 0) => String::new(),
        (None, _) => "?".to_owned(),
        (Some(usd), 0) => format!("{about}{}", dollars(usd)),
        (Some(usd), _) => format!("{about}{} + ?", dollars(usd)),
    }
}

/// Where a number belongs that nobody knows.
pub const UNKNOWN: &str = "–";

/// The tokens of some turns, unless the agents that took them say nothing of any.
pub fn spent_tokens(amount: &Amount) -> String {
    let total = amount.tokens.total();
    if total == 0 && amount.turns > 0 { UNKNOWN.to_owned() } else { tokens(total) }
}

/// `12.3k tokens, $1.25`; without dollars where no price is known.
pub fn spent(amount: &Amount) -> String {
    let cost = if amount.priced + amount.unbilled > 0 { format!(", {}", cost(amount)) } else { String::new() };
    format!("{} tokens{cost}", spent_tokens(amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_two_units() {
        let shown = [0, 850, 4_250, 59_999, 60_000, 187_000, 3_720_000].map(|ms| duration(Duration::from_millis(ms)));
        assert_eq!(shown, ["0ms", "850ms", "4.2s", "59.9s", "1m 00s", "3m 07s", "1h 02m"]);
    }

    #[test]
    fn tokens_that_nobody_counted_are_not_none() {
        let turns = |turns| spent(&Amount { turns, ..Amount::default() });
        assert_eq!([turns(0), turns(2)], ["0 tokens", "– tokens"]);
    }

    #[test]
    fn tokens_are_cut_not_rounded_up() {
        assert_eq!([999, 1_000, 12_349, 999_999, 4_560_000].map(tokens), ["999", "1.0k", "12.3k", "999.9k", "4.5M"]);
    }
}
