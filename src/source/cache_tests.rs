use std::os::unix::fs::symlink;

use super::*;

/// A directory that goes away with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sherpack-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn cache(&self, limit: u64) -> Cache {
        Cache::open(Some(&self.0), limit, 1000)
    }

    fn archive(&self, digest: &str) -> PathBuf {
        self.0.join(VERSION).join("archives").join(bare(digest))
    }

    fn age(&self, digest: &str, seconds: u64) {
        let file = File::options().write(true).open(self.archive(digest)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn validators(etag: &str) -> Validators {
    Validators { etag: Some(etag.to_owned()), last_modified: None, of: None }
}

#[test]
fn an_archive_survives_the_process_and_is_found_by_its_digest_alone() {
    let scratch = Scratch::new("survives");
    let digest = scratch.cache(1000).put(b"abc".to_vec());
    assert_eq!(digest, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let again = scratch.cache(1000);
    assert_eq!(again.get(&digest).as_deref(), Some(&b"abc"[..]));
    assert_eq!(again.get(&super::digest(b"other")), None);
    assert_eq!(again.get("sha256:../../../etc/passwd"), None);
    assert!(listed(&scratch.0.join(VERSION).join("new")).unwrap().is_empty());
}

#[test]
fn a_damaged_archive_is_thrown_away() {
    let scratch = Scratch::new("damaged");
    let cache = scratch.cache(1000);
    for damage in [&b"abX"[..], b"", &[b'a'; 2000]] {
        let digest = cache.put(b"abc".to_vec());
        fs::write(scratch.archive(&digest), damage).unwrap();
        assert_eq!(cache.get(&digest), None);
        assert!(!scratch.archive(&digest).exists());
    }
}

#[test]
fn the_least_recently_used_goes_first_and_never_what_was_just_written() {
    let scratch = Scratch::new("bounded");
    let cache = scratch.cache(250);
    let [a, b] = [b'a', b'b'].map(|letter| cache.put(vec![letter; 100]));
    scratch.age(&a, 300);
    scratch.age(&b, 200);
    // A use makes it young again.
    assert!(cache.get(&a).is_some());
    let c = cache.put(vec![b'c'; 100]);
    assert!(cache.get(&b).is_none());
    assert!(cache.get(&a).is_some() && cache.get(&c).is_some());
    let large = cache.put(vec![b'd'; 900]);
    assert!(cache.get(&large).is_some() && cache.get(&a).is_none() && cache.get(&c).is_none());
    // What another process left above the limit goes at the start.
    scratch.cache(50);
    assert!(!scratch.archive(&large).exists());
}

#[test]
fn archives_are_bounded_in_number_too() {
    let scratch = Scratch::new("number");
    let mut cache = scratch.cache(1000);
    cache.disk.as_mut().unwrap().count_limit = 3;
    let [a, b, c] = [b'a', b'b', b'c'].map(|letter| cache.put(vec![letter]));
    scratch.age(&b, 300);
    let d = cache.put(vec![b'd']);
    assert!(cache.get(&b).is_none());
    assert!([a, c, d].iter().all(|kept| cache.get(kept).is_some()));
}

#[test]
fn what_a_source_gave_is_remembered_as_long_as_the_archive_is_there() {
    let scratch = Scratch::new("sources");
    let cache = scratch.cache(1000);
    let [first, second] = [b"first", b"secon"].map(|bytes| cache.put(bytes.to_vec()));
    let mut known = Known::default();
    known.gave(&first, validators("1"));
    known.gave(&second, validators("2"));
    cache.put_source("a", &known);
    let again = scratch.cache(1000);
    assert_eq!(again.source("a"), known);
    assert_eq!(again.source("b"), Known::default());
    fs::remove_file(scratch.archive(&second)).unwrap();
    let left = again.source("a");
    assert_eq!(left.given, [first]);
    assert_eq!(left.current, None, "what it gave before is not what it gives");
    assert_eq!(left.validators, Validators::default(), "they were those of the other archive");
    fs::write(scratch.0.join(VERSION).join("sources").join(sha256_hex(b"a")), "{").unwrap();
    assert_eq!(again.source("a"), Known::default());
}

#[test]
fn what_a_source_gave_is_bounded() {
    let mut known = Known::default();
    for index in 0..40 {
        known.gave(&index.to_string(), Validators::default());
    }
    assert_eq!(known.given.len(), GIVEN);
    assert_eq!(known.current.as_deref(), Some("39"));
    known.gave("30", Validators::default());
    assert_eq!((known.given.len(), known.current.as_deref()), (GIVEN, Some("30")));
}

#[test]
fn a_directory_that_others_may_write_is_not_believed() {
    for name in ["mode", "link"] {
        let scratch = Scratch::new(name);
        fs::create_dir_all(&scratch.0).unwrap();
        let root = scratch.0.join(VERSION);
        if name == "mode" {
            fs::create_dir(&root).unwrap();
            fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        } else {
            symlink(std::env::temp_dir(), &root).unwrap();
        }
        let cache = scratch.cache(1000);
        assert!(cache.disk.is_none(), "{name}");
        let digest = cache.put(b"abc".to_vec());
        assert_eq!(cache.get(&digest).as_deref(), Some(&b"abc"[..]), "in memory");
    }
}

#[test]
fn without_a_directory_memory_is_bounded() {
    let mut cache = Cache::open(None, 0, 1000);
    cache.memory = Mutex::new(WeightedLru::new(ARCHIVES, 64));
    let digests: Vec<String> = (0..5_u8).map(|index| cache.put(vec![index; 20])).collect();
    let kept: Vec<bool> = digests.iter().map(|digest| cache.get(digest).is_some()).collect();
    assert_eq!(kept, [false, false, true, true, true]);
}

#[test]
fn a_directory_that_fails_later_costs_no_pack() {
    let scratch = Scratch::new("fails");
    let cache = scratch.cache(1000);
    fs::remove_dir_all(&scratch.0).unwrap();
    let digest = cache.put(b"abc".to_vec());
    assert_eq!(cache.get(&digest).as_deref(), Some(&b"abc"[..]));
}

#[test]
fn two_caches_share_a_directory() {
    let scratch = Scratch::new("shared");
    let caches = [scratch.cache(2000), scratch.cache(2000)];
    std::thread::scope(|scope| {
        for cache in &caches {
            scope.spawn(|| {
                for round in 0..200_u8 {
                    let bytes = vec![round % 40; 100];
                    let digest = cache.put(bytes.clone());
                    // The other one may have evicted it; it never gives anything else.
                    assert!(cache.get(&digest).is_none_or(|found| found == bytes));
                }
            });
        }
    });
    let kept = listed(&scratch.0.join(VERSION).join("archives")).unwrap();
    let total: u64 = kept.iter().map(|entry| entry.bytes).sum();
    assert!((100..=2100).contains(&total), "{total}");
}
