//! The name of a process.

pub(super) fn holder(text: &str) -> Result<String, String> {
    if (1..=200).contains(&text.len()) && text.chars().all(|letter| letter.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err("a holder has 1 to 200 visible ASCII characters".to_owned())
}

/// In a container the process id is always 1 and a restart keeps the host name: the random part
/// tells a process from its predecessor.
pub(super) fn default_holder() -> String {
    let host = std::env::var("HOSTNAME")
        .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
        .unwrap_or_default();
    let mut random = [0; 4];
    // Without randomness the process id has to do; a name is no reason to fail.
    let _ = getrandom::fill(&mut random);
    holder_name(host.trim(), std::process::id(), u32::from_ne_bytes(random))
}

fn holder_name(host: &str, process: u32, random: u32) -> String {
    let host: String = host.chars().filter(char::is_ascii_graphic).take(150).collect();
    let host = if host.is_empty() { "unnamed" } else { &host };
    format!("{host}-{process}-{random:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_name_is_valid_whatever_the_host_is_called() {
        for host in ["web-1", "", "höst name\n", &"x".repeat(300)] {
            let name = holder_name(host, 1, 7);
            assert_eq!(holder(&name).as_deref(), Ok(name.as_str()));
        }
        assert_eq!(holder_name("web-1", 1, 7), "web-1-1-00000007");
        assert_ne!(default_holder(), default_holder());
    }
}
