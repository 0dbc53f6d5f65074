// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudlogin trades the identity that gitcache's pod has at a cloud for logins to that
// cloud's registries: Amazon ECR, Google Artifact Registry and Azure Container Registry.
//
// Its promises:
//
//   - A login, and every token on the way to it, goes only to the cloud's own services and to
//     registries of that cloud: hosts below the cloud's domains, reached by https, and the ones that the
//     operator listed. [Logins.Login] checks that before anything is sent, whatever was checked
//     before.
//   - All repositories with one identity share one exchange and its login. A login is replaced five
//     minutes before its end. While the cloud is away the old one counts until its end.
//   - A failed exchange is not repeated before a pause, which doubles up to five minutes, or is as long
//     as the cloud asks for. Until then callers get the failure.
//   - Answers, files, times and the number of logins that are kept are bounded. No redirect is
//     followed.
//   - Errors are *mirror.UpstreamError, with what the cloud said and what to do. They, and logs, hold
//     no token.
//
// Package cloud makes the calls. They take the proxy of gitcache's environment and the system's
// certificates, never a repository's, whose author would otherwise see the pod's token. The one
// request that goes to a registry takes the repository's way.
//
// Files call one another downwards: cloudlogin; exchange; hosts; config. The package has one lock,
// the logins' lock, and nothing is sent with it held. It keeps nothing on disk and knows nothing of
// the registry's protocol.
package cloudlogin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/flight"
	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// renewBefore is how long before its end a login is replaced.
	renewBefore = 5 * time.Minute
	// usableUntil is how long before its end an old login is not used even while the cloud is away.
	usableUntil = 30 * time.Second
	// firstPause and maxPause bound the time between two exchanges that fail.
	firstPause = 5 * time.Second
	maxPause   = 5 * time.Minute
	// forgetAfter is how old a login has to be before its refusal by a registry counts: a registry
	// that refuses every login must not cost an exchange each time.
	forgetAfter = 10 * time.Minute
	remembered  = 10_000
	// exchangeTimeout bounds all requests of an exchange together.
	exchangeTimeout = 40 * time.Second
	// maxLifetime bounds a login's lifetime as a cloud reports it.
	maxLifetime = 12 * time.Hour
)

// Logins are the logins of this process. All methods may be called concurrently.
type Logins struct {
	identity *cloud.Identity
	config   Config
	listed   map[string]bool // host:port
	now      func() time.Time
	flights  *flight.Group[identity, login]

	mu    sync.Mutex // guards the order of looks and changes of known
	known *lru.Cache[identity, record]
}

// record is the state of an identity's logins.
type record struct {
	login    login
	obtained time.Time // zero: there is no login
	failures int       // exchanges in a row
	failed   error     // of the last one
	until    time.Time // when the next may begin after a failure
}

// New returns logins by the pod's identity in the environment. It sends nothing. Now returns the
// time; nil: time.Now. The error names the setting that cannot be used.
func New(config Config, now func() time.Time) (*Logins, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	pod, err := cloud.New(cloud.Params{
		Config: config.Config, Caller: "gitcache", Prefix: prefix, GoogleRole: "roles/artifactregistry.reader", Now: now,
	})
	if err != nil {
		return nil, err
	}
	known, err := lru.New[identity, record](remembered)
	if err != nil {
		return nil, err
	}
	l := &Logins{
		identity: pod, config: config, listed: map[string]bool{}, now: now,
		flights: flight.New[identity, login](exchangeTimeout), known: known,
	}
	for _, host := range config.Registries {
		l.listed[hostOf(&url.URL{Host: host})] = true
	}
	return l, nil
}

// Check returns nil if the workload identity that a credential names can be used for a registry. The
// error is a *mirror.FieldError.
func (l *Logins) Check(c upstream.Credential, registry *url.URL) error {
	if err := c.CheckWorkloadIdentity(); err != nil {
		return &mirror.FieldError{Field: "credential.workload_identity", Message: "It " + err.Error() + "."}
	}
	if !mayHave(c.Cloud, registry, l.listed) {
		return &mirror.FieldError{Field: "url", Message: fmt.Sprintf("%s is not a registry of the cloud %s, such as %s over https, and gets no login of gitcache's "+
			"identity; an operator can list it in gitcache-identity-registries.", registry.Host, c.Cloud, examples[c.Cloud])}
	}
	return nil
}

// Login returns a login for a registry, and when it ends. The carrier takes requests to that
// registry, and to no other server; it must keep working after this call, because others may share
// the exchange.
//
// It returns the errors of [Logins.Check], a *mirror.UpstreamError, or the context's cause. A
// caller that gives up does not end an exchange.
func (l *Logins) Login(
	ctx context.Context, c upstream.Credential, registry *url.URL, carrier http.RoundTripper,
) (upstream.DockerLogin, time.Time, error) {
	if err := l.Check(c, registry); err != nil {
		return upstream.DockerLogin{}, time.Time{}, err
	}
	id := l.identify(c, registry)
	if known := l.recall(id); known.isFresh(l.now()) {
		return known.login.DockerLogin, known.login.ends, nil
	}
	got, err := l.flights.Do(ctx, id, func(ctx context.Context) (login, error) { return l.renew(ctx, id, carrier) })
	return got.DockerLogin, got.ends, err
}

// Forget drops the login that a registry refused. It may have been revoked. A young one stays, because
// a registry that refuses all of them would cost an exchange each time.
func (l *Logins) Forget(c upstream.Credential, registry *url.URL) {
	id := l.identify(c, registry)
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.known.Peek(id)
	if !ok || known.obtained.IsZero() || l.now().Sub(known.obtained) <= forgetAfter {
		return
	}
	known.login, known.obtained = login{}, time.Time{} // a pause stays
	l.known.Add(id, known)
}

// identify returns the identity of the login, with the environment's values where the credential
// has none.
func (l *Logins) identify(c upstream.Credential, registry *url.URL) identity {
	id := identity{cloud: c.Cloud, principal: c.Principal, scope: c.Scope}
	switch c.Cloud {
	case upstream.CloudAWS:
		if id.principal == "" && l.config.AWSTokenFile != "" {
			id.principal = l.config.AWSRole
		}
		// The registry's own region: a login counts in one region.
		if region := regionOf(registry); region != "" {
			id.scope = region
		} else if id.scope == "" {
			id.scope = l.config.AWSRegion
		}
	case upstream.CloudAzure:
		if id.principal == "" {
			id.principal = l.config.AzureClient
		}
		if id.scope == "" {
			id.scope = l.config.AzureTenant
		}
		id.registry = strings.TrimSuffix(hostOf(registry), ":443")
	case upstream.CloudGCP:
	}
	return id
}

// renew makes an exchange, unless another one has just ended, or has failed too recently.
func (l *Logins) renew(ctx context.Context, id identity, carrier http.RoundTripper) (login, error) {
	known := l.recall(id)
	now := l.now()
	if known.isFresh(now) {
		return known.login, nil
	}
	if now.Before(known.until) {
		return known.orFailure(now)
	}
	got, err := l.exchange(ctx, id, carrier)
	err = translated(err)
	now = l.now()
	if err == nil && !got.ends.After(now) {
		err = rejected("%s gives a login that has ended already; check the clock of gitcache's machine.", id.cloud)
	}
	if err != nil {
		known = known.withFailure(err, now)
		l.note(id, known)
		return known.orFailure(now)
	}
	if latest := now.Add(maxLifetime); got.ends.After(latest) {
		got.ends = latest
	}
	l.note(id, record{login: got, obtained: now})
	return got, nil
}

func (l *Logins) exchange(ctx context.Context, id identity, carrier http.RoundTripper) (login, error) {
	switch id.cloud {
	case upstream.CloudAWS:
		return l.exchangeAWS(ctx, id)
	case upstream.CloudGCP:
		return l.exchangeGCP(ctx, id)
	case upstream.CloudAzure:
		return l.exchangeAzure(ctx, id, carrier)
	}
	return login{}, fmt.Errorf("no exchange for the cloud %q", id.cloud)
}

// recall returns the record of an identity; the zero record if there is none.
func (l *Logins) recall(id identity) record {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, _ := l.known.Get(id)
	return known
}

func (l *Logins) note(id identity, r record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Add(id, r)
}

// isFresh reports whether there is a login that need not be replaced yet. One that is short-lived is
// replaced at half of its life: a metadata server may hand out a token shortly before its end.
func (r record) isFresh(now time.Time) bool {
	if r.obtained.IsZero() {
		return false
	}
	early := min(renewBefore, r.login.ends.Sub(r.obtained)/2)
	return now.Before(r.login.ends.Add(-early))
}

// orFailure returns the old login while it is good, and else why there is no new one.
func (r record) orFailure(now time.Time) (login, error) {
	if !r.obtained.IsZero() && now.Before(r.login.ends.Add(-usableUntil)) {
		return r.login, nil
	}
	return login{}, r.failed
}

// withFailure returns the record after another failure, with the pause that follows it.
func (r record) withFailure(err error, now time.Time) record {
	pause := maxPause
	if r.failures < 6 { // 5 s doubled six times is more than the longest pause
		pause = min(firstPause<<r.failures, maxPause)
	}
	if asked, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		pause = max(pause, asked.RetryAfter)
	}
	r.failures, r.failed, r.until = r.failures+1, err, now.Add(pause)
	return r
}
