// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sops_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/render/sops"
)

func stored(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSecSopsTampering changes an encrypted file in every way that a committer without a key can.
func TestSecSopsTampering(t *testing.T) {
	t.Parallel()
	text := stored(t, "data.enc.yaml")
	password := regexp.MustCompile(`password: (ENC\S+)`).FindStringSubmatch(text)[1]
	token := regexp.MustCompile(`token: (ENC\S+)`).FindStringSubmatch(text)[1]
	mac := regexp.MustCompile(`\n    mac: \S+`).FindString(text)
	for name, changed := range map[string]string{
		"value moved to another key":     strings.Replace(text, "    password: ENC", "    username: ENC", 1),
		"value moved to another map":     strings.Replace(strings.Replace(text, "stringData:", "data:", 1), "data:\n    token", "stringData:\n    token", 1),
		"value copied to another key":    strings.Replace(text, "    empty: \"\"", "    empty: "+password, 1),
		"values exchanged":               strings.NewReplacer(password, token, token, password).Replace(text),
		"value dropped":                  strings.Replace(text, "    token: "+token+"\n", "", 1),
		"value replaced by plain text":   strings.Replace(text, token, "Y2hhbmdlZA==", 1),
		"value made empty":               strings.Replace(text, token, `""`, 1),
		"readable value changed":         strings.Replace(text, "name: shop", "name: shopper", 1),
		"readable value added":           strings.Replace(text, "type: Opaque", "type: Opaque\nimmutable: true", 1),
		"document added":                 text + "---\nkind: ConfigMap\n",
		"MAC removed":                    strings.Replace(text, mac, "", 1),
		"MAC made empty":                 strings.Replace(text, mac, "\n    mac: \"\"", 1),
		"MAC of a value":                 strings.Replace(text, mac, "\n    mac: "+password, 1),
		"MAC of another file":            strings.Replace(text, mac, regexp.MustCompile(`\n    mac: \S+`).FindString(stored(t, "types.enc.yaml")), 1),
		"time changed":                   strings.Replace(text, `lastmodified: "2`, `lastmodified: "1`, 1),
		"MAC only of what is encrypted":  strings.Replace(text, "sops:\n", "sops:\n    mac_only_encrypted: true\n", 1),
		"everything said to be readable": strings.Replace(text, "encrypted_regex: ^(data|stringData)$", "encrypted_regex: ^nothing$", 1),
		"type changed":                   strings.Replace(text, ",type:str]", ",type:bytes]", 1),
		"alias":                          strings.Replace(text, "type: Opaque", "type: &a Opaque\nother: *a", 1),
		"key that is not text":           strings.Replace(text, "type: Opaque", "1: Opaque", 1),
		"no recipients":                  regexp.MustCompile(`(?s)    age:.*?    encrypted_regex`).ReplaceAllString(text, "    encrypted_regex"),
		"key groups":                     strings.Replace(text, "sops:\n", "sops:\n    key_groups: [{}]\n", 1),
		"comment rules":                  strings.Replace(text, "sops:\n", "sops:\n    encrypted_comment_regex: a\n", 1),
		"sops is a text":                 regexp.MustCompile(`(?s)sops:\n.*`).ReplaceAllString(text, "sops: yes\n"),
	} {
		if changed == text {
			t.Errorf("%s: the test changes nothing", name)
		}
		_, err := sops.OpenFile([]byte(changed), keys(t))
		if err == nil {
			t.Errorf("%s: was opened", name)
			continue
		}
		if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "AGE-SECRET") {
			t.Errorf("%s: the error holds a value: %v", name, err)
		}
	}
}

// TestSecSopsOtherKeys opens a file with keys that it is not encrypted for.
func TestSecSopsOtherKeys(t *testing.T) {
	t.Parallel()
	text := []byte(stored(t, "data.enc.yaml"))
	other, err := sops.ParseKeys("AGE-SECRET-KEY-1Q4MVLVYQKPTKSQCYXWPTKSQCYXWPTKSQCYXWPTKSQCYXWPTKSQCYX0000")
	if err == nil {
		t.Errorf("a key with a wrong sum was read: %v", other)
	}
	if err != nil && strings.Contains(err.Error(), "KEY-1Q4") {
		t.Errorf("the error repeats the key: %v", err)
	}
	var missing *sops.KeyError
	if _, err := sops.OpenFile(text, sops.Keys{}); !errors.As(err, &missing) || !strings.Contains(err.Error(), recipient) {
		t.Errorf("without keys: got %v, want the recipients", err)
	}
	if got := fmt.Sprintf("%v %+v %#v", keys(t), keys(t), keys(t)); strings.Contains(got, "SECRET") {
		t.Errorf("keys print as %s", got)
	}
}

// TestSecSopsHostileHeaders gives age headers that cost a reader time: thousands of stanzas, and
// passwords with a huge work factor.
func TestSecSopsHostileHeaders(t *testing.T) {
	t.Parallel()
	text := stored(t, "data.enc.yaml")
	envelope := regexp.MustCompile(`(?s)        - enc: \|.*?          recipient: \S+\n`)
	stanza := "-> scrypt bHVWaFpSeU9RSmFtTnNHcg 30\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
	scrypt := "age-encryption.org/v1\n" + stanza + "--- AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
	entry := func(enc string) string {
		return "        - recipient: " + recipient + "\n          enc: |\n            " +
			strings.ReplaceAll(enc, "\n", "\n            ") + "\n"
	}
	armored := func(s string) string {
		return "-----BEGIN AGE ENCRYPTED FILE-----\n" + s + "\n-----END AGE ENCRYPTED FILE-----"
	}
	for name, entries := range map[string]string{
		"scrypt":             entry(scrypt),
		"many stanzas":       entry("age-encryption.org/v1\n" + strings.Repeat("-> X25519 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\nAAAA\n", 40_000)),
		"endless armor":      entry(armored(strings.Repeat("A", 1<<20))),
		"many recipients":    strings.Repeat(entry(scrypt), 8_000),
		"a giant":            strings.Repeat(entry(scrypt), 100_000),
		"recipient of prose": strings.ReplaceAll(entry(scrypt), recipient, "\"open me\\e[31m\""),
	} {
		changed := envelope.ReplaceAllLiteralString(text, entries)
		opened, keys := make(chan error, 1), keys(t)
		go func() {
			_, err := sops.OpenFile([]byte(changed), keys)
			opened <- err
		}()
		err := await.Value(t, "a refusal: "+name, opened)
		if err == nil {
			t.Errorf("%s: was opened", name)
			continue
		}
		if len(err.Error()) > 2000 || strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%s: got an error of %d bytes: %.200q", name, len(err.Error()), err)
		}
	}
}

// TestSecSopsBombs opens files that are deep, long, or hold many documents.
func TestSecSopsBombs(t *testing.T) {
	t.Parallel()
	text := stored(t, "data.enc.yaml")
	for name, changed := range map[string]string{
		"depth":     "a: " + strings.Repeat("{a: ", 5000) + "1" + strings.Repeat("}", 5000) + "\n" + text,
		"list":      "a: [" + strings.Repeat("ENC[AES256_GCM],", 200_000) + "]\n" + text,
		"documents": text + strings.Repeat("---\na: 1\n", 20_000),
		"pattern":   strings.Replace(text, "^(data|stringData)$", strings.Repeat("(a*)*", 10_000), 1),
		"aliases":   "a: &a [1,1,1,1]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n" + text,
	} {
		if _, err := sops.OpenFile([]byte(changed), keys(t)); err == nil {
			t.Errorf("%s: was opened", name)
		}
	}
}

// TestSecSopsMovedInObjects has a renderer move encrypted texts: they are opened only where the file
// has them, and never where people see them.
func TestSecSopsMovedInObjects(t *testing.T) {
	t.Parallel()
	file, err := sops.OpenFile([]byte(stored(t, "data.enc.yaml")), keys(t))
	if err != nil {
		t.Fatal(err)
	}
	text := documents(t, []byte(stored(t, "data.enc.yaml")))[0]["stringData"].(map[string]any)["password"]
	for name, object := range map[string]map[string]any{
		"another key":    {"kind": "ConfigMap", "stringData": map[string]any{"other": text}},
		"another map":    {"kind": "ConfigMap", "data": map[string]any{"password": text}},
		"an annotation":  {"kind": "ConfigMap", "metadata": map[string]any{"annotations": map[string]any{"password": text}}},
		"another's text": {"kind": "ConfigMap", "stringData": map[string]any{"password": "ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:str]"}},
	} {
		if opened, err := file.Fill(object); err == nil {
			t.Errorf("%s: opened %d values", name, len(opened))
		} else if strings.Contains(fmt.Sprint(err, object), "canary") {
			t.Errorf("%s: shows a value", name)
		}
	}
}

// FuzzOpenFile opens arbitrary files. Only files that sops wrote open.
func FuzzOpenFile(f *testing.F) {
	for _, c := range cases() {
		text, err := os.ReadFile(c.encrypted())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := sops.OpenFile(text, keys(t))
		if err != nil && (file != nil || strings.Contains(err.Error(), "canary")) {
			t.Errorf("got %v", err)
		}
	})
}
