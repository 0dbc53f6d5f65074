// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hubsecrets_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/cli/internal/hubsecrets"
	"github.com/leatdev/leat/cli/internal/localtls"
	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/internal/runtime/identity"
)

// start is the time of the first run.
var start = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func params(dir string) hubsecrets.Params {
	return hubsecrets.Params{
		Dir: dir, Groups: map[string]int{"gitcache": os.Getgid(), "people": os.Getgid()}, Hosts: []string{"tunnel-1", "", "hub.example.com"},
		Given: func(string) string { return "" }, Now: start, Fault: nil,
	}
}

// made returns the parameters of a folder that is complete.
func made(t *testing.T) hubsecrets.Params {
	t.Helper()
	p := params(filepath.Join(t.TempDir(), "secrets"))
	run(t, p)
	return p
}

func run(t *testing.T, p hubsecrets.Params) hubsecrets.Result {
	t.Helper()
	result, err := hubsecrets.Make(p)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// files returns the content of every file of a folder, without line ends at its end.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = strings.TrimRight(string(content), "\n")
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	delete(all, "authority/.lock")
	return all
}

// complete fails unless the files of a folder fit each other.
func complete(t *testing.T, dir string) {
	t.Helper()
	have := files(t, dir)
	var keys []string
	for _, service := range hubsecrets.Services {
		for _, secret := range append([]string{have[service+"/service-secret"]}, hubsecrets.Split(have[service+"/service-other-secrets"])...) {
			key, err := identity.NewServiceKey([]byte(secret), service)
			if err != nil {
				t.Fatalf("%s: %v", service, err)
			}
			keys = append(keys, key.Public())
		}
	}
	want := map[string]string{
		"gitcache/redis-url":       "redis://gitcache:" + have["redis/gitcache-password"] + "@redis:6379/0",
		"tunnel/redis-url":         "redis://tunnel:" + have["redis/tunnel-password"] + "@redis:6379/0",
		"distributor/database-url": "postgres://leat:" + have["postgres/password"] + "@postgres:5432/leat?sslmode=disable",
		"people/token":             have["distributor/admin-token"],
		"people/webhook-secret":    have["gitcache/webhook-secret"],
		"people/ca.crt":            have["tunnel/ca.crt"],
	}
	for _, service := range hubsecrets.Services {
		want[service+"/service-keys"] = strings.Join(keys, ",")
	}
	for name, content := range want {
		if have[name] != content || content == "" {
			t.Errorf("%s: got %q, want %q", name, have[name], content)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(have["people/ca.crt"]))
	for _, file := range []string{"tunnel/tls.pem", "front/tls.pem"} {
		server, err := tls.X509KeyPair([]byte(have[file]), []byte(have[file]))
		if err != nil {
			t.Fatal(file, err)
		}
		for _, name := range []string{"localhost", "127.0.0.1", "::1", "tunnel-1"} {
			if _, err := server.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: server.Leaf.NotAfter}); err != nil {
				t.Error(file, err)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing under a temporary name", left, err)
	}
}

func TestSecretsAreMadeOnce(t *testing.T) {
	t.Parallel()
	p := params(filepath.Join(t.TempDir(), "secrets"))
	result := run(t, p)
	complete(t, p.Dir)
	before := files(t, p.Dir)
	if written := slices.Sorted(slices.Values(result.Written)); !slices.Equal(written, slices.Sorted(maps.Keys(before))) {
		t.Errorf("got %v, want every file", written)
	}
	if want := []string{"127.0.0.1", "::1", "hub.example.com", "localhost", "tunnel-1"}; !slices.Equal(result.Hosts, want) || result.NewAuthority {
		t.Errorf("got %+v, want the hosts %v", result, want)
	}
	if again := run(t, p); len(again.Written) > 0 {
		t.Errorf("second run: got %v, want nothing written", again.Written)
	}
	if diff := cmp.Diff(before, files(t, p.Dir)); diff != "" {
		t.Errorf("second run: %s", diff)
	}
	other := files(t, made(t).Dir)
	for name, content := range before {
		if content == other[name] && name != "authority/made" && !strings.HasSuffix(name, "/service-other-secrets") {
			t.Errorf("%s is the same for two hubs", name)
		}
	}
}

// TestSecFoldersHoldTheSecretsOfTheirReader requires that no secret is in the folder of another
// reader, and that a folder and its files are for the owner, and for the reader's group if it has one.
func TestSecFoldersHoldTheSecretsOfTheirReader(t *testing.T) {
	t.Parallel()
	p := made(t)
	all := files(t, p.Dir)
	for source, readers := range map[string][]string{
		"gitcache/service-secret": {"gitcache"}, "distributor/service-secret": {"distributor"}, "tunnel/service-secret": {"tunnel"},
		"distributor/sealing-keys": {"distributor"}, "distributor/admin-token": {"distributor", "people"},
		"gitcache/webhook-secret": {"gitcache", "people"},
		"redis/gitcache-password": {"gitcache", "redis"}, "redis/tunnel-password": {"redis", "tunnel"},
		"postgres/password": {"distributor", "postgres"}, "authority/ca.pem": {"authority"}, "tunnel/tls.pem": {"tunnel"},
		"front/tls.pem": {"front"},
	} {
		secret, _, _ := strings.Cut(all[source], "-----END EC PRIVATE KEY-----") // the certificate behind it is public
		var found []string
		for name, content := range all {
			if reader, _, _ := strings.Cut(name, "/"); strings.Contains(content, secret) {
				found = append(found, reader)
			}
		}
		slices.Sort(found)
		if found = slices.Compact(found); secret == "" || !slices.Equal(found, readers) {
			t.Errorf("%s is in %v, want it in %v", source, found, readers)
		}
	}
	if runtime.GOOS == "windows" {
		return // has no modes
	}
	// An operator may have copied a file here for everybody.
	if err := os.Chmod(filepath.Join(p.Dir, "redis", "tunnel-password"), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, p)
	for _, reader := range hubsecrets.Readers {
		folder, file := fs.FileMode(0o700), fs.FileMode(0o400)
		if _, ok := p.Groups[reader]; ok {
			folder, file = 0o750, 0o440
		}
		if info, err := os.Stat(filepath.Join(p.Dir, reader)); err != nil || info.Mode().Perm() != folder {
			t.Errorf("%s: got %v, %v, want %v", reader, info.Mode(), err, folder)
		}
		for name := range all {
			if !strings.HasPrefix(name, reader+"/") {
				continue
			}
			if info, err := os.Stat(filepath.Join(p.Dir, name)); err != nil || info.Mode().Perm() != file {
				t.Errorf("%s: got %v, %v, want %v", name, info.Mode(), err, file)
			}
		}
	}
}

// TestKilledRunsAreCompleted ends a run at each of its steps, once in an empty folder and once when
// the certificates are replaced, and requires that the next run completes it without replacing a
// secret.
func TestKilledRunsAreCompleted(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) hubsecrets.Params{
		"the first run": func(t *testing.T) hubsecrets.Params { return params(filepath.Join(t.TempDir(), "secrets")) },
		"a renewal": func(t *testing.T) hubsecrets.Params {
			p := made(t)
			p.Now = start.AddDate(9, 6, 0) // the authority ends, too
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for last := 1; ; last++ {
				p := begin(t)
				steps = 0
				p.Fault = func(hubsecrets.Step, string) error {
					if steps++; steps == last {
						return errKilled
					}
					return nil
				}
				_, err := hubsecrets.Make(p)
				if err == nil {
					break
				}
				if !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				// A process that is killed does not remove what it has begun.
				if err := os.WriteFile(filepath.Join(p.Dir, "redis", ".new-12"), []byte("half"), 0o600); err != nil {
					t.Fatal(err)
				}
				left := files(t, p.Dir)
				p.Fault = nil
				run(t, p)
				complete(t, p.Dir)
				now := files(t, p.Dir)
				for _, source := range strings.Fields(now["authority/made"]) {
					if before, ok := left[source]; ok && before != now[source] && source != "authority/ca.pem" {
						t.Errorf("after step %d: %s was replaced", last, source)
					}
				}
				if again := run(t, p); len(again.Written) > 0 {
					t.Errorf("after step %d: the run after the next one wrote %v", last, again.Written)
				}
			}
			if steps < 8 { // an authority, a certificate, and their two copies
				t.Errorf("got %d steps", steps)
			}
		})
	}
}

var errKilled = errors.New("killed")

func TestCertificatesAreRenewed(t *testing.T) {
	t.Parallel()
	both, tunnel := []string{"tunnel/tls.pem", "front/tls.pem"}, []string{"tunnel/tls.pem"}
	for name, tt := range map[string]struct {
		change func(t *testing.T, p *hubsecrets.Params)
		want   []string
	}{
		"a month before its end": {func(_ *testing.T, p *hubsecrets.Params) { p.Now = start.AddDate(0, 0, 334) }, nil},
		"in its last month":      {func(_ *testing.T, p *hubsecrets.Params) { p.Now = start.AddDate(0, 0, 336) }, both},
		"after its end":          {func(_ *testing.T, p *hubsecrets.Params) { p.Now = start.AddDate(2, 0, 0) }, both},
		"the same names": {func(_ *testing.T, p *hubsecrets.Params) {
			p.Hosts = []string{"HUB.example.com", "tunnel-1", "127.0.0.1"}
		}, nil},
		"another name":          {func(_ *testing.T, p *hubsecrets.Params) { p.Hosts = append(p.Hosts, "192.0.2.7") }, both},
		"a name less":           {func(_ *testing.T, p *hubsecrets.Params) { p.Hosts = []string{"tunnel-1"} }, both},
		"a damaged certificate": {func(t *testing.T, p *hubsecrets.Params) { put(t, p, "tunnel/tls.pem", "-----BEGIN") }, tunnel},
		"one of another authority": {func(t *testing.T, p *hubsecrets.Params) {
			put(t, p, "tunnel/tls.pem", files(t, made(t).Dir)["tunnel/tls.pem"])
		}, tunnel},
		"before the authority's last year": {
			func(_ *testing.T, p *hubsecrets.Params) { p.Now = start.AddDate(8, 6, 0) }, both,
		},
		"in the authority's last year": {
			func(_ *testing.T, p *hubsecrets.Params) { p.Now = start.AddDate(9, 6, 0) },
			[]string{"authority/ca.pem", "tunnel/tls.pem", "front/tls.pem", "tunnel/ca.crt", "front/ca.crt", "people/ca.crt", "agent/ca.crt"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := made(t)
			tt.change(t, &p)
			result := run(t, p)
			if !slices.Equal(result.Written, tt.want) || result.NewAuthority != slices.Contains(tt.want, "authority/ca.pem") {
				t.Errorf("got %+v, want %v written", result, tt.want)
			}
			complete(t, p.Dir)
		})
	}
}

// put replaces a file, as an operator does by docker compose cp.
func put(t *testing.T, p *hubsecrets.Params, name, content string) {
	t.Helper()
	path := filepath.Join(p.Dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReplacedSecretsAreFollowed replaces secrets by hand, in the steps of docs/operations/keys.md.
func TestReplacedSecretsAreFollowed(t *testing.T) {
	t.Parallel()
	p := made(t)
	before := files(t, p.Dir)
	next := hubsecrets.Random()
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"the next secret of a service": {map[string]string{"tunnel/service-other-secrets": next + "\n"}, []string{"distributor/service-keys", "gitcache/service-keys", "tunnel/service-keys"}},
		"a password of Redis":          {map[string]string{"redis/gitcache-password": next}, []string{"gitcache/redis-url"}},
		"the password of PostgreSQL":   {map[string]string{"postgres/password": next}, []string{"distributor/database-url"}},
		"the administrator's token":    {map[string]string{"distributor/admin-token": "leat_" + next}, []string{"people/token"}},
		"a root":                       {map[string]string{"distributor/sealing-keys": next + "\n" + before["distributor/sealing-keys"]}, nil},
	} {
		for file, content := range tt.files {
			put(t, &p, file, content)
		}
		if result := run(t, p); !slices.Equal(result.Written, tt.want) {
			t.Errorf("%s: got %v, want %v", name, result.Written, tt.want)
		}
		complete(t, p.Dir)
		for file, content := range tt.files {
			if got := files(t, p.Dir)[file]; got != strings.TrimRight(content, "\n") {
				t.Errorf("%s: %s was replaced", name, file)
			}
		}
	}
	put(t, &p, "tunnel/service-secret", next)
	put(t, &p, "tunnel/service-other-secrets", "")
	run(t, p)
	complete(t, p.Dir)
	if keys := files(t, p.Dir)["gitcache/service-keys"]; strings.Count(keys, "tunnel=") != 1 {
		t.Errorf("got the keys %s, want one of the tunnel", keys)
	}
}

// TestGivenSecretsAreTaken begins with the secrets of a hub that has had them in its environment.
func TestGivenSecretsAreTaken(t *testing.T) {
	t.Parallel()
	p := params(t.TempDir())
	given := map[string]string{
		"LEAT_DISTRIBUTOR_SECRET": strings.Repeat("d", 32), "LEAT_POSTGRES_PASSWORD": strings.Repeat("p", 32), "LEAT_TUNNEL_OTHER_SECRETS": strings.Repeat("t", 32),
	}
	p.Given = func(name string) string { return given[name] }
	run(t, p)
	complete(t, p.Dir)
	given = map[string]string{"LEAT_POSTGRES_PASSWORD": strings.Repeat("q", 32)}
	run(t, p)
	got := files(t, p.Dir)
	for name, want := range map[string]string{"distributor/service-secret": "d", "postgres/password": "p", "tunnel/service-other-secrets": "t"} {
		if got[name] != strings.Repeat(want, 32) {
			t.Errorf("%s: got %q, want the first one given", name, got[name])
		}
	}
	given["LEAT_DISTRIBUTOR_SECRET"] = "hunter2"
	other := params(t.TempDir())
	other.Given = p.Given
	if _, err := hubsecrets.Make(other); !errors.Is(err, hubsecrets.ErrDamaged) || !strings.Contains(err.Error(), "LEAT_DISTRIBUTOR_SECRET") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a short one: got %v", err)
	}
}

// TestErrorsNameTheFile requires that a run which cannot succeed reports where and why, prints no
// secret and replaces nothing.
func TestErrorsNameTheFile(t *testing.T) {
	t.Parallel()
	fail := func(err error) func(*testing.T, *hubsecrets.Params) {
		return func(_ *testing.T, p *hubsecrets.Params) {
			p.Now = start.AddDate(2, 0, 0)
			p.Fault = func(_ hubsecrets.Step, path string) error { return &fs.PathError{Op: "write", Path: path, Err: err} }
		}
	}
	for name, tt := range map[string]struct {
		change func(*testing.T, *hubsecrets.Params)
		file   string
		want   error
	}{
		"a short secret":    {func(t *testing.T, p *hubsecrets.Params) { put(t, p, "tunnel/service-secret", "hunter2") }, "tunnel/service-secret", hubsecrets.ErrDamaged},
		"a short other one": {func(t *testing.T, p *hubsecrets.Params) { put(t, p, "tunnel/service-other-secrets", "hunter2") }, "tunnel/service-other-secrets", hubsecrets.ErrDamaged},
		"an empty password": {func(t *testing.T, p *hubsecrets.Params) { put(t, p, "postgres/password", "") }, "postgres/password", hubsecrets.ErrDamaged},
		"another token": {func(t *testing.T, p *hubsecrets.Params) {
			put(t, p, "distributor/admin-token", "hunter2"+hubsecrets.Random())
		}, "distributor/admin-token", hubsecrets.ErrDamaged},
		"an empty webhook":    {func(t *testing.T, p *hubsecrets.Params) { put(t, p, "gitcache/webhook-secret", "\n") }, "gitcache/webhook-secret", hubsecrets.ErrDamaged},
		"a damaged authority": {func(t *testing.T, p *hubsecrets.Params) { put(t, p, "authority/ca.pem", "hunter2") }, "authority/ca.pem", hubsecrets.ErrDamaged},
		"a server's authority": {
			func(t *testing.T, p *hubsecrets.Params) {
				put(t, p, "authority/ca.pem", files(t, p.Dir)["tunnel/tls.pem"])
			},
			"authority/ca.pem", hubsecrets.ErrDamaged,
		},
		"a lost root":      {func(t *testing.T, p *hubsecrets.Params) { remove(t, p, "distributor/sealing-keys") }, "distributor/sealing-keys", hubsecrets.ErrLost},
		"a lost authority": {func(t *testing.T, p *hubsecrets.Params) { remove(t, p, "authority/ca.pem") }, "authority/ca.pem", hubsecrets.ErrLost},
		"a full volume":    {fail(syscall.ENOSPC), "tunnel/tls.pem", hubsecrets.ErrFull},
		"a full quota":     {fail(syscall.EDQUOT), "tunnel/tls.pem", hubsecrets.ErrFull},
		"no permission":    {fail(syscall.EACCES), "tunnel/tls.pem", hubsecrets.ErrNotPermitted},
		"a read-only disk": {fail(syscall.EROFS), "tunnel/tls.pem", hubsecrets.ErrNotPermitted},
		"another failure":  {fail(syscall.EIO), "tunnel/tls.pem", syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := made(t)
			tt.change(t, &p)
			before := files(t, p.Dir)
			result, err := hubsecrets.Make(p)
			at, ok := errors.AsType[*hubsecrets.FileError](err)
			if !ok || at.Path != filepath.Join(p.Dir, filepath.FromSlash(tt.file)) || !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v of %s", err, tt.want, tt.file)
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("got %v, want no secret in it", err)
			}
			if diff := cmp.Diff(before, files(t, p.Dir)); diff != "" || len(result.Written) > 0 {
				t.Errorf("got %v and %s, want nothing changed", result.Written, diff)
			}
		})
	}
}

func remove(t *testing.T, p *hubsecrets.Params, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(p.Dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestInvalidHosts(t *testing.T) {
	t.Parallel()
	p := params(t.TempDir())
	for _, host := range []string{"DNS:hub.example.com", "https://hub.example.com", "hub:8701", "two names", "-hub", "hub..com", "*"} {
		p.Hosts = []string{host}
		if _, err := hubsecrets.Make(p); !errors.Is(err, localtls.ErrHost) || !strings.Contains(err.Error(), host) {
			t.Errorf("%s: got %v", host, err)
		}
	}
	p.Hosts = []string{"*.hub.example.com", "fe80::1%eth0"}
	if result := run(t, p); !slices.Contains(result.Hosts, "*.hub.example.com") || !slices.Contains(result.Hosts, "fe80::1") {
		t.Errorf("got %v", result.Hosts)
	}
}

func TestRunsExcludeEachOther(t *testing.T) {
	t.Parallel()
	p := made(t)
	lock, err := durable.Lock(filepath.Join(p.Dir, "authority", ".lock"))
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system has no such locks")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hubsecrets.Make(p); !errors.Is(err, hubsecrets.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, p)
}
