//! Dates and times that programs write for people: `8/29/2017` and `1:58:43 PM`.

/// Date and time as ISO 8601 has them; as the file spells them where it could be another day.
pub(crate) fn joined(date: Option<&str>, time: Option<&str>) -> Option<String> {
    let date = date.map(str::trim).filter(|date| !date.is_empty())?;
    let time = time.map(str::trim).filter(|time| !time.is_empty());
    let Some(time) = time else { return Some(day(date, false).unwrap_or(date.to_owned())) };
    let known = clock(time).and_then(|(clock, halves)| Some((day(date, halves)?, clock)));
    Some(known.map_or(format!("{date} {time}"), |(day, clock)| format!("{day}T{clock}")))
}

/// A day: the year first; the day first, with dots, or with the month's name; or, with slashes, the
/// month first if the clock has two halves of a day, or if there are not so many months.
fn day(date: &str, halves: bool) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let parts: Vec<&str> = date.split(['/', '.', '-', ' ']).collect();
    let &[a, b, c] = parts.as_slice() else { return None };
    let number = |part: &str| part.parse::<u32>().ok();
    let (year, month, day) = match (number(a)?, number(b), number(c)?) {
        (year, Some(month), day) if a.len() == 4 => (year, month, day),
        (day, None, year) => {
            let name = b.get(..3)?.to_lowercase();
            (year, 1 + MONTHS.iter().position(|month| *month == name)? as u32, day)
        }
        (day, Some(month), year) if date.contains('.') => (year, month, day),
        (day, Some(month), year) if day > 12 => (year, month, day),
        (month, Some(day), year) if halves || day > 12 => (year, month, day),
        _ => return None,
    };
    let is_day = (1..=12).contains(&month) && (1..=31).contains(&day);
    (is_day && (1900..3000).contains(&year)).then(|| format!("{year}-{month:02}-{day:02}"))
}

/// A time of day, and whether the clock has two halves of a day (AM and PM).
fn clock(time: &str) -> Option<(String, bool)> {
    let upper = time.to_uppercase();
    let half = ["AM", "PM"].into_iter().find(|half| upper.ends_with(half));
    let digits = upper.trim_end_matches(half.unwrap_or_default()).trim();
    let parts: Vec<&str> = digits.split(':').collect();
    let &[hour, minute, second] = parts.as_slice() else { return None };
    let is_second = second.len() >= 2 && second.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    let is_second = is_second && second.parse::<f64>().is_ok_and(|second| second < 61.0);
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match half {
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some("PM") => hour % 12 + 12,
        Some(_) => hour % 12,
        None => hour,
    };
    if hour > 23 || minute > 59 || !is_second {
        return None;
    }
    Some((format!("{hour:02}:{minute:02}:{second}"), half.is_some()))
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn dates_are_those_of_iso_8601_or_as_they_were() {
        for (date, time, expected) in [
            ("8/29/2017", "1:58:43 PM", "2017-08-29T13:58:43"),
            ("10/1/2018", "11:10:22 AM", "2018-10-01T11:10:22"),
            ("06/13/2016", "12:06:40 am", "2016-06-13T00:06:40"),
            ("06/07/2016", "12:06:40 PM", "2016-06-07T12:06:40"),
            ("29/8/2017", "13:58:43", "2017-08-29T13:58:43"),
            ("8/29/2017", "13:58:43", "2017-08-29T13:58:43"),
            ("29.08.2017", "13:58:43.25", "2017-08-29T13:58:43.25"),
            ("2017-08-29", "13:58:43", "2017-08-29T13:58:43"),
            ("2017/8/9", "3:58:43", "2017-08-09T03:58:43"),
            ("27 Mar 2015", "14:18:39", "2015-03-27T14:18:39"),
            ("27-March-2015", "", "2015-03-27"),
            // It could be June or July.
            ("06/07/2016", "12:06:40", "06/07/2016 12:06:40"),
            ("6/7/2016", "", "6/7/2016"),
            ("13/13/2016", "12:06:40", "13/13/2016 12:06:40"),
            ("2016-06-07", "25:00:00", "2016-06-07 25:00:00"),
            ("2016-06-07", "13:00:00 PM", "2016-06-07 13:00:00 PM"),
            ("today", "noon", "today noon"),
            ("27 ö 2015", "", "27 ö 2015"),
        ] {
            assert_eq!(joined(Some(date), Some(time)).as_deref(), Some(expected));
        }
        assert_eq!(joined(None, Some("12:00:00")), None);
        assert_eq!(joined(Some(" "), None), None);
    }
}
