// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/testkit/golden"
)

// sample has a setting of every type.
type sample struct {
	Addr     string
	Format   string
	Interval time.Duration
	Debug    bool
	Workers  int
	Cache    config.Bytes
	Hosts    []string
	Token    secret.Text
	Endpoint string
}

func (c *sample) Bind(s *config.Set) {
	s.Group("Serving")
	s.String(&c.Addr, "listen-addr", ":8080", "address to listen on")
	s.Choice(&c.Format, "log-format", "json", "form of the log", "json", "text")
	s.Bool(&c.Debug, "debug", false, "say more")
	s.Group("Work")
	s.Duration(&c.Interval, "gitcache-poll-interval", 2*time.Minute, "how often a repository is polled")
	s.Int(&c.Workers, "workers", 16, "things done at once")
	s.Size(&c.Cache, "cache-size", 10*config.GiB, "bytes kept | on disk")
	s.Strings(&c.Hosts, "hosts", []string{"a", "b"}, "hosts to ask")
	s.Group("Access")
	s.Secret(&c.Token, "service-secret", "", "shared secret of the services")
	s.Env(&c.Endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT", "where telemetry goes")
}

func defaults() sample {
	return sample{
		Addr: ":8080", Format: "json", Interval: 2 * time.Minute, Workers: 16, Cache: 10 * config.GiB, Hosts: []string{"a", "b"},
	}
}

func environment(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, found := vars[name]
		return value, found
	}
}

func bound(vars map[string]string) (*sample, *config.Set) {
	c, s := new(sample), config.New("gitcache", environment(vars))
	c.Bind(s)
	return c, s
}

func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatalf("write secret: %v", err)
	}
	return path
}

func TestParse(t *testing.T) {
	t.Parallel()
	file := secretFile(t, "from file\r\n\n")
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want func(c *sample)
	}{
		{name: "defaults", want: func(*sample) {}},
		{
			name: "variables",
			env: map[string]string{
				"LEAT_LISTEN_ADDR": ":1", "LEAT_LOG_FORMAT": "text", "LEAT_GITCACHE_POLL_INTERVAL": "1m30s", "LEAT_DEBUG": "true",
				"LEAT_WORKERS": "3", "LEAT_CACHE_SIZE": "512MiB", "LEAT_HOSTS": "x, y,,z ", "LEAT_SERVICE_SECRET": "s3cret",
				"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector",
			},
			want: func(c *sample) {
				*c = sample{
					Addr: ":1", Format: "text", Interval: 90 * time.Second, Debug: true, Workers: 3, Cache: 512 * config.MiB,
					Hosts: []string{"x", "y", "z"}, Token: "s3cret", Endpoint: "http://collector",
				}
			},
		},
		{
			name: "flag beats variable", args: []string{"--workers=5", "--listen-addr", ":2", "--debug"},
			env:  map[string]string{"LEAT_WORKERS": "3", "LEAT_LISTEN_ADDR": ":1"},
			want: func(c *sample) { c.Workers, c.Addr, c.Debug = 5, ":2", true },
		},
		{
			name: "an empty variable is unset", env: map[string]string{"LEAT_WORKERS": "", "LEAT_SERVICE_SECRET_FILE": ""},
			want: func(*sample) {},
		},
		{name: "an empty flag is a value", args: []string{"--hosts=", "--listen-addr="}, want: func(c *sample) { c.Hosts, c.Addr = nil, "" }},
		{name: "switch off", args: []string{"--debug=false"}, env: map[string]string{"LEAT_DEBUG": "1"}, want: func(*sample) {}},
		{name: "secret file by variable", env: map[string]string{"LEAT_SERVICE_SECRET_FILE": file}, want: func(c *sample) { c.Token = "from file" }},
		{name: "secret file by flag", args: []string{"--service-secret-file", file}, want: func(c *sample) { c.Token = "from file" }},
		{
			name: "flag beats variables for a secret too", args: []string{"--service-secret=flag"},
			env:  map[string]string{"LEAT_SERVICE_SECRET": "env", "LEAT_SERVICE_SECRET_FILE": file},
			want: func(c *sample) { c.Token = "flag" },
		},
		{name: "fractions and decimal units", args: []string{"--cache-size=1.5kB"}, want: func(c *sample) { c.Cache = 1500 }},
		{name: "zero needs no unit", args: []string{"--cache-size=0", "--gitcache-poll-interval=0"}, want: func(c *sample) { c.Cache, c.Interval = 0, 0 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, set := bound(tt.env)
			if err := set.Parse(tt.args); err != nil {
				t.Fatalf("parse: %v", err)
			}
			want := defaults()
			tt.want(&want)
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseErrorsNameFlagVariableAndWhatIsValid(t *testing.T) {
	t.Parallel()
	empty := secretFile(t, "\n")
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want []string
	}{
		{name: "duration without unit", args: []string{"--gitcache-poll-interval=30"}, want: []string{"--gitcache-poll-interval (LEAT_GITCACHE_POLL_INTERVAL)", "30", "2m30s"}},
		{name: "negative duration", env: map[string]string{"LEAT_GITCACHE_POLL_INTERVAL": "-1s"}, want: []string{"--gitcache-poll-interval (LEAT_GITCACHE_POLL_INTERVAL)", "zero or more"}},
		{name: "size without unit", args: []string{"--cache-size=512"}, want: []string{"--cache-size (LEAT_CACHE_SIZE)", "512MiB"}},
		{name: "negative size", args: []string{"--cache-size=-1MiB"}, want: []string{"want a size"}},
		{name: "size beyond int64", args: []string{"--cache-size=9e9TiB"}, want: []string{"want a size"}},
		{name: "no number", args: []string{"--cache-size=NaNMiB"}, want: []string{"want a size"}},
		{name: "number", env: map[string]string{"LEAT_WORKERS": "many"}, want: []string{"--workers (LEAT_WORKERS)", "many", "whole number"}},
		{name: "negative number", args: []string{"--workers=-1"}, want: []string{"zero or more"}},
		{name: "switch", env: map[string]string{"LEAT_DEBUG": "maybe"}, want: []string{"--debug (LEAT_DEBUG)", "true or false"}},
		{name: "choice", args: []string{"--log-format=xml"}, want: []string{"--log-format (LEAT_LOG_FORMAT)", "xml", "json, text"}},
		{name: "all at once", args: []string{"--workers=x", "--cache-size=y"}, want: []string{"--workers", "--cache-size"}},
		{name: "unknown flag", args: []string{"--wrokers=1"}, want: []string{"wrokers", "--help"}},
		{name: "argument", args: []string{"serve"}, want: []string{"serve", "--help"}},
		{name: "secret and its file as variables", env: map[string]string{"LEAT_SERVICE_SECRET": "a", "LEAT_SERVICE_SECRET_FILE": empty}, want: []string{"--service-secret (LEAT_SERVICE_SECRET)", "--service-secret-file (LEAT_SERVICE_SECRET_FILE)", "twice"}},
		{name: "secret and its file as flags", args: []string{"--service-secret=a", "--service-secret-file=b"}, want: []string{"twice"}},
		{name: "empty secret file", args: []string{"--service-secret-file", empty}, want: []string{"--service-secret-file", "empty"}},
		{name: "absent secret file", env: map[string]string{"LEAT_SERVICE_SECRET_FILE": "/nowhere/at/all"}, want: []string{"LEAT_SERVICE_SECRET_FILE", "/nowhere/at/all"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, set := bound(tt.env)
			err := set.Parse(tt.args)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want it to contain %q", err, want)
				}
			}
		})
	}
}

// TestFilesHoldSettings reads a URL, a list and a list of secrets from files. Only the last may be
// empty.
func TestFilesHoldSettings(t *testing.T) {
	t.Parallel()
	url, list, none := secretFile(t, "redis://user:hunter2@redis\n"), secretFile(t, "a=1,b=2\n"), secretFile(t, "\n")
	for name, tt := range map[string]struct {
		env  map[string]string
		want string // the values, or a part of the error
	}{
		"files":           {map[string]string{"LEAT_URL_FILE": url, "LEAT_KEYS_FILE": list, "LEAT_OTHER_FILE": list}, "redis://user:hunter2@redis [a=1 b=2] a=1,b=2"},
		"an empty list":   {map[string]string{"LEAT_URL_FILE": url, "LEAT_KEYS_FILE": list, "LEAT_OTHER_FILE": none}, "redis://user:hunter2@redis [a=1 b=2] "},
		"an empty text":   {map[string]string{"LEAT_URL_FILE": none}, "--url-file (LEAT_URL_FILE): read value: " + none + " is empty"},
		"an empty key":    {map[string]string{"LEAT_KEYS_FILE": none}, none + " is empty"},
		"an absent list":  {map[string]string{"LEAT_OTHER_FILE": "/nowhere"}, "--other-file (LEAT_OTHER_FILE): read value: open /nowhere: no such file or directory"},
		"value and file":  {map[string]string{"LEAT_URL": "redis://hunter3", "LEAT_URL_FILE": url}, "--url (LEAT_URL): given twice, also by --url-file (LEAT_URL_FILE)"},
		"the file of one": {map[string]string{"LEAT_URL": "here", "LEAT_KEYS": "c", "LEAT_OTHER_FILE": none}, "here [c] "},
	} {
		var u string
		var keys []string
		var other secret.Text
		set := config.New("gitcache", environment(tt.env))
		set.String(&u, "url", "", "a URL")
		set.File("url")
		set.Strings(&keys, "keys", nil, "a list")
		set.File("keys")
		set.Secrets(&other, "other", "a list of secrets")
		got := ""
		if err := set.Parse(nil); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(u, " ", keys, " ") + other.Reveal()
		}
		if !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
		if strings.Contains(got, "hunter3") {
			t.Errorf("%s: got %q, want no value in an error", name, got)
		}
	}
	set := config.New("gitcache", environment(nil))
	set.File("absent")
	if err := set.Parse(nil); err == nil || !strings.Contains(err.Error(), "--absent is not bound") {
		t.Errorf("a file of no setting: got %v, want an error", err)
	}
}

func TestParseHelpAndVersion(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]error{
		"--help": config.ErrHelp, "-h": config.ErrHelp, "--version": config.ErrVersion,
	} {
		_, set := bound(nil)
		if err := set.Parse([]string{arg}); !errors.Is(err, want) {
			t.Errorf("parse %s: got %v, want %v", arg, err, want)
		}
	}
}

func TestParseRefusesANameBoundTwice(t *testing.T) {
	t.Parallel()
	_, set := bound(nil)
	var again string
	set.String(&again, "listen-addr", "", "the same")
	if err := set.Parse(nil); err == nil || !strings.Contains(err.Error(), "--listen-addr") {
		t.Errorf("got %v, want an error that names --listen-addr", err)
	}
}

func TestCheckRunsOnceTheValuesAreIn(t *testing.T) {
	t.Parallel()
	errRule := errors.New("rule broken")
	for workers, want := range map[string]error{"3": errRule, "4": nil} {
		c, set := bound(nil)
		set.Check(func() error {
			if c.Workers == 3 {
				return errRule
			}
			return nil
		})
		if err := set.Parse([]string{"--workers", workers}); !errors.Is(err, want) {
			t.Errorf("workers %s: got %v, want %v", workers, err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	_, set := bound(nil)
	var out strings.Builder
	if err := set.Help(&out); err != nil {
		t.Fatalf("help: %v", err)
	}
	golden.Assert(t, "help.golden", []byte(out.String()))
}

func TestDocument(t *testing.T) {
	t.Parallel()
	_, set := bound(nil)
	var out strings.Builder
	if err := set.Document(&out); err != nil {
		t.Fatalf("document: %v", err)
	}
	golden.Assert(t, "document.golden", []byte(out.String()))
}

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	hidden := secret.Text("hunter2")
	encoded, err := json.Marshal(map[string]any{"token": hidden})
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).InfoContext(t.Context(), "constant", slog.Any("token", hidden))
	printed := []string{string(encoded), log.String(), fmt.Sprint(sample{Token: hidden})}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		printed = append(printed, fmt.Sprintf(verb, hidden), fmt.Sprintf(verb, &hidden), fmt.Sprintf(verb, sample{Token: hidden}))
	}
	for _, text := range printed {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") {
			t.Errorf("got %q, want the secret hidden", text)
		}
	}
	if got := hidden.Reveal(); got != "hunter2" {
		t.Errorf("reveal: got %q, want the secret", got)
	}
}

func TestBytesRoundTrip(t *testing.T) {
	t.Parallel()
	for size, text := range map[config.Bytes]string{
		0: "0", 1: "1B", 1500: "1500B", config.KiB: "1KiB", 512 * config.MiB: "512MiB", 10 * config.GiB: "10GiB",
		3 * config.TiB: "3TiB", 1536 * config.MiB: "1536MiB",
	} {
		if got := size.String(); got != text {
			t.Errorf("String of %d: got %q, want %q", int64(size), got, text)
		}
		if got, err := config.ParseBytes(text); err != nil || got != size {
			t.Errorf("ParseBytes(%q): got %d, %v, want %d", text, int64(got), err, int64(size))
		}
	}
}

func TestMissingNamesFlagAndVariable(t *testing.T) {
	t.Parallel()
	if got, want := config.Missing("redis-url").Error(), "--redis-url (LEAT_REDIS_URL) is required"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFromOSReadsTheProcess(t *testing.T) {
	t.Setenv("LEAT_WORKERS", "7")
	c, set := new(sample), config.FromOS("gitcache")
	c.Bind(set)
	if err := set.Parse(nil); err != nil || c.Workers != 7 {
		t.Errorf("got %d workers and error %v, want 7", c.Workers, err)
	}
}

func TestCompleteFillsWhatIsZero(t *testing.T) {
	t.Parallel()
	type settings struct {
		Name, Given string
		Wait        time.Duration
		Size        config.Bytes
		Count, Set  int
		Switch      bool
		List        []string
	}
	got := settings{Given: "mine", Set: 7}
	config.Complete(func(s *config.Set) {
		s.String(&got.Name, "name", "def", "")
		s.String(&got.Given, "given", "def", "")
		s.Duration(&got.Wait, "wait", time.Minute, "")
		s.Size(&got.Size, "size", config.MiB, "")
		s.Int(&got.Count, "count", 3, "")
		s.Int(&got.Set, "set", 3, "")
		s.Bool(&got.Switch, "switch", true, "")
		s.Strings(&got.List, "list", []string{"a"}, "")
	})
	want := settings{Name: "def", Given: "mine", Wait: time.Minute, Size: config.MiB, Count: 3, Set: 7, List: []string{"a"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v: a switch is left alone", got, want)
	}
}

// TestSecEmptyListsAreNotUnset sets a list of allowed values to nothing, in each way that there is.
func TestSecEmptyListsAreNotUnset(t *testing.T) {
	t.Parallel()
	parse := func(args []string, env map[string]string) ([]string, error) {
		allowed := []string{"before"}
		set := config.New("test", environment(env))
		set.Allow(&allowed, "allowed-accounts", "accounts")
		err := set.Parse(args)
		return allowed, err
	}
	if got, err := parse(nil, nil); err != nil || got != nil {
		t.Errorf("unset: got %q, %v, want nil", got, err)
	}
	if got, err := parse(nil, map[string]string{"LEAT_ALLOWED_ACCOUNTS": "a/b, c/d"}); err != nil || !slices.Equal(got, []string{"a/b", "c/d"}) {
		t.Errorf("set: got %q, %v, want both", got, err)
	}
	for _, text := range []string{"", ",", " , "} {
		_, byVariable := parse(nil, map[string]string{"LEAT_ALLOWED_ACCOUNTS": text})
		_, byFlag := parse([]string{"--allowed-accounts=" + text}, nil)
		for _, err := range []error{byVariable, byFlag} {
			if err == nil || !strings.Contains(err.Error(), "LEAT_ALLOWED_ACCOUNTS") || !strings.Contains(err.Error(), "at least one item") {
				t.Errorf("%q: got %v, want what to write", text, err)
			}
		}
	}
	literal := []string{}
	config.Complete(func(s *config.Set) { s.Allow(&literal, "allowed-accounts", "") })
	if literal == nil {
		t.Error("a literal: the empty list became nil")
	}
}
