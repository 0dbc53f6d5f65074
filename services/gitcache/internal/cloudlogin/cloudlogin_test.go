// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudlogin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/cloudtest"
	"github.com/leatdev/leat/internal/testkit/offline"
	"github.com/leatdev/leat/services/gitcache/internal/cloudlogin"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func TestMain(m *testing.M) { os.Exit(offline.Run(m)) }

// subject has logins at the clouds of a test.
type subject struct {
	*cloudlogin.Logins
	clouds *cloudtest.Clouds
	config cloudlogin.Config

	mu   sync.Mutex
	time time.Time
}

// newSubject returns logins with the environment that every cloud gives to pods, except for the
// effect of change.
func newSubject(t *testing.T, change func(*cloudlogin.Config)) *subject {
	t.Helper()
	s := &subject{clouds: cloudtest.Start(t), time: time.Now()}
	s.clouds.Now = s.now
	s.config = cloudlogin.Config{ECRURL: s.clouds.URL + "/aws/ecr/", Config: s.clouds.Environment(cloudtest.TokenFile(t))}
	if change != nil {
		change(&s.config)
	}
	var err error
	if s.Logins, err = cloudlogin.New(s.config, s.now); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *subject) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.time
}

func (s *subject) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.time = s.time.Add(d)
}

// registry carries requests to a registry of Azure.
type registry struct {
	clouds *cloudtest.Clouds
	host   string
}

// RoundTrip implements http.RoundTripper.
func (r registry) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.String() != "https://"+r.host+"/oauth2/exchange" || req.Method != http.MethodPost {
		return nil, fmt.Errorf("unexpected request %s %s", req.Method, req.URL)
	}
	w := httptest.NewRecorder()
	r.clouds.ServeExchange(w, req, r.host)
	return w.Result(), nil
}

// nobody is a carrier to a registry that must not be asked.
type nobody struct{}

// RoundTrip implements http.RoundTripper.
func (nobody) RoundTrip(req *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("unexpected request to %s", req.URL.Host)
}

const (
	ecr = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
	gar = "europe-docker.pkg.dev"
	acr = "team.azurecr.io"
)

func at(host string) *url.URL { return &url.URL{Scheme: "https", Host: host} }

func identity(cloud upstream.Cloud) upstream.Credential {
	return upstream.Credential{Method: upstream.MethodWorkloadIdentity, Cloud: cloud}
}

func (s *subject) login(ctx context.Context, c upstream.Credential, host string) (string, error) {
	carrier := http.RoundTripper(nobody{})
	if c.Cloud == upstream.CloudAzure {
		carrier = registry{s.clouds, host}
	}
	got, _, err := s.Login(ctx, c, at(host), carrier)
	if err != nil {
		return "", err
	}
	return got.Username + ":" + got.Password.Reveal(), nil
}

func TestEveryCloud(t *testing.T) {
	t.Parallel()
	aws, gcp := identity(upstream.CloudAWS), identity(upstream.CloudGCP)
	aws.Principal = cloudtest.Role
	account := gcp
	account.Principal = cloudtest.Account
	federated, both := gcp, account
	federated.Scope, both.Scope = cloudtest.Provider, cloudtest.Provider
	azure := identity(upstream.CloudAzure)
	azure.Principal, azure.Scope = cloudtest.Client, cloudtest.Tenant
	for name, test := range map[string]struct {
		change     func(*cloudlogin.Config)
		credential upstream.Credential
		host, want string
		asked      []string
	}{
		"AWS by the environment": {
			credential: identity(upstream.CloudAWS), host: ecr, want: "AWS:" + cloudtest.ECRPassword, asked: []string{"POST /aws/sts/", "POST /aws/ecr/"},
		},
		"AWS by the credential": {
			change: func(c *cloudlogin.Config) {
				c.AWSRole, c.AWSRegion = "arn:aws:iam::123456789012:role/other", "us-east-1"
			},
			credential: aws, host: ecr, want: "AWS:" + cloudtest.ECRPassword, asked: []string{"POST /aws/sts/", "POST /aws/ecr/"},
		},
		"AWS at a listed host": {
			change: func(c *cloudlogin.Config) {
				c.Registries, c.AWSRegion = []string{"mirror.example:5000"}, cloudtest.Region
			},
			credential: aws, host: "Mirror.example:5000", want: "AWS:" + cloudtest.ECRPassword, asked: []string{"POST /aws/sts/", "POST /aws/ecr/"},
		},
		"EKS Pod Identity": {
			change: func(c *cloudlogin.Config) {
				c.AWSContainerTokenFile, c.AWSTokenFile = c.AWSTokenFile, ""
				c.AWSContainerURL = "http://" + c.GCPMetadataHost + "/aws/pod"
			},
			credential: identity(upstream.CloudAWS), host: "123456789012.dkr-ecr.eu-central-1.on.aws:443", want: "AWS:" + cloudtest.ECRPassword,
			asked: []string{"GET /aws/pod", "POST /aws/ecr/"},
		},
		"Google's metadata server": {
			credential: gcp, host: gar, want: "oauth2accesstoken:" + cloudtest.GoogleToken,
			asked: []string{"GET /computeMetadata/v1/instance/service-accounts/default/token"},
		},
		"an account of Google's metadata server": {
			credential: account, host: "eu.gcr.io", want: "oauth2accesstoken:" + cloudtest.AccountToken,
			asked: []string{"GET /computeMetadata/v1/instance/service-accounts/" + cloudtest.Account + "/token"},
		},
		"federation": {credential: federated, host: gar, want: "oauth2accesstoken:canary-federated-token", asked: []string{"POST /google/sts/v1/token"}},
		"federation for an account": {
			credential: both, host: "gcr.io", want: "oauth2accesstoken:" + cloudtest.AccountToken,
			asked: []string{"POST /google/sts/v1/token", "POST /google/iam/v1/projects/-/serviceAccounts/" + cloudtest.Account + ":generateAccessToken"},
		},
		"Azure by the environment": {
			credential: identity(upstream.CloudAzure), host: acr, want: "00000000-0000-0000-0000-000000000000:",
			asked: []string{"POST /azure/" + cloudtest.Tenant + "/oauth2/v2.0/token", "POST /oauth2/exchange"},
		},
		"Azure by the credential": {
			change:     func(c *cloudlogin.Config) { c.AzureClient, c.AzureTenant = "", "" },
			credential: azure, host: "team.azurecr.cn", want: "00000000-0000-0000-0000-000000000000:",
			asked: []string{"POST /azure/" + cloudtest.Tenant + "/oauth2/v2.0/token", "POST /oauth2/exchange"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, test.change)
			if test.credential.Cloud == upstream.CloudAzure {
				test.want += cloudtest.RefreshToken(s.now().Add(time.Hour))
			}
			for range 2 { // the second one costs nothing
				got, err := s.login(t.Context(), test.credential, test.host)
				if err != nil || got != test.want {
					t.Fatalf("got %q (%v), want %q", got, err, test.want)
				}
			}
			if asked := s.clouds.Take(); !slices.Equal(asked, test.asked) {
				t.Errorf("got the requests %v, want %v", asked, test.asked)
			}
		})
	}
}

// TestOneExchangeForAll has many repositories ask at once, some of which give up.
func TestOneExchangeForAll(t *testing.T) {
	t.Parallel()
	s := newSubject(t, nil)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.clouds.Fail(func(http.ResponseWriter, *http.Request) bool {
		once.Do(func() { close(entered) })
		<-release
		return false
	})
	var group sync.WaitGroup
	impatient, cancel := context.WithCancel(t.Context())
	group.Go(func() {
		if _, err := s.login(impatient, identity(upstream.CloudAWS), ecr); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the caller's own end", err)
		}
	})
	<-entered
	cancel()
	for i := range 50 {
		group.Go(func() {
			// One login counts for all registries of a region, whatever their account.
			host := fmt.Sprintf("%012d.dkr.ecr.eu-central-1.amazonaws.com", i)
			if _, err := s.login(t.Context(), identity(upstream.CloudAWS), host); err != nil {
				t.Error(err)
			}
		})
	}
	close(release)
	group.Wait()
	if asked := s.clouds.Take(); len(asked) != 2 {
		t.Errorf("got the requests %v, want one exchange", asked)
	}
}

// TestRenewal replaces a login five minutes before its end, keeps the old one while the cloud is away,
// and ends with it.
func TestRenewal(t *testing.T) {
	t.Parallel()
	s := newSubject(t, nil)
	ask := func(want int, wantErr bool) {
		t.Helper()
		_, err := s.login(t.Context(), identity(upstream.CloudGCP), gar)
		if asked := len(s.clouds.Take()); asked != want || (err != nil) != wantErr {
			t.Errorf("got %d requests and %v, want %d", asked, err, want)
		}
	}
	ask(1, false)
	s.pass(55*time.Minute - time.Second)
	ask(0, false)
	s.clouds.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	s.pass(2 * time.Second)
	ask(1, false) // the old one
	ask(0, false) // not before the pause
	s.pass(6 * time.Second)
	ask(1, false)
	s.pass(5 * time.Minute)
	ask(1, true) // it has ended
	s.clouds.Fail(nil)
	ask(0, true)
	s.pass(5 * time.Minute)
	s.clouds.Live(4 * time.Minute)
	ask(1, false)
	s.pass(2*time.Minute - time.Second)
	ask(0, false) // a short one is not replaced all the time
	s.pass(2 * time.Second)
	ask(1, false)
	s.clouds.Live(48 * time.Hour)
	s.pass(3 * time.Minute)
	ask(1, false)
	s.pass(12*time.Hour - 5*time.Minute)
	ask(1, false) // nothing lasts longer
}

// TestFailuresPause spares a cloud that refuses, twice as long each time.
func TestFailuresPause(t *testing.T) {
	t.Parallel()
	s := newSubject(t, nil)
	s.clouds.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>` +
			`<Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error></ErrorResponse>`))
		return true
	})
	asked := 0
	for range 60 * 60 { // an hour, and a call each second
		_, err := s.login(t.Context(), identity(upstream.CloudAWS), ecr)
		failed, ok := errors.AsType[*mirror.UpstreamError](err)
		if !ok || failed.Reason != reason.UpstreamAuthRejected ||
			!strings.Contains(failed.Message, "AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity") ||
			!strings.Contains(failed.Message, "trust policy of the role "+cloudtest.Role) {
			t.Fatalf("got %v, want what the cloud said and what to do", err)
		}
		asked += len(s.clouds.Take())
		s.pass(time.Second)
	}
	if asked < 12 || asked > 20 {
		t.Errorf("got %d requests in an hour, want them ever more rarely, up to every five minutes", asked)
	}
	s.clouds.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "1200")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	s.pass(5 * time.Minute)
	_, err := s.login(t.Context(), identity(upstream.CloudAWS), ecr)
	if failed, ok := errors.AsType[*mirror.UpstreamError](err); !ok || failed.Reason != reason.UpstreamRateLimited || failed.RetryAfter != 20*time.Minute {
		t.Errorf("got %v, want to wait for 20 min", err)
	}
	s.clouds.Take()
	s.clouds.Fail(nil)
	s.pass(19 * time.Minute)
	if _, err := s.login(t.Context(), identity(upstream.CloudAWS), ecr); err == nil || len(s.clouds.Take()) != 0 {
		t.Errorf("got %v, want the cloud left alone", err)
	}
	s.pass(time.Minute + time.Second)
	if _, err := s.login(t.Context(), identity(upstream.CloudAWS), ecr); err != nil {
		t.Error(err)
	}
}

// TestRefusedLogins are dropped, unless that would cost an exchange with every request.
func TestRefusedLogins(t *testing.T) {
	t.Parallel()
	s := newSubject(t, nil)
	ask := func(want int) {
		t.Helper()
		if _, err := s.login(t.Context(), identity(upstream.CloudGCP), gar); err != nil || len(s.clouds.Take()) != want {
			t.Errorf("got %v, or not %d requests", err, want)
		}
	}
	ask(1)
	s.Forget(identity(upstream.CloudGCP), at(gar))
	ask(0)
	s.pass(11 * time.Minute)
	s.Forget(identity(upstream.CloudGCP), at(gar))
	ask(1)
	s.pass(11 * time.Minute)
	s.clouds.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	for range 5 { // while the cloud is away, that costs no more requests than its failures do
		s.Forget(identity(upstream.CloudGCP), at(gar))
		if _, err := s.login(t.Context(), identity(upstream.CloudGCP), gar); err == nil {
			t.Error("got a login that the registry refused")
		}
	}
	if asked := s.clouds.Take(); len(asked) != 1 {
		t.Errorf("got the requests %v, want one", asked)
	}
}

// TestWhatIsMissing names the setting and what to do.
func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct {
		change func(*cloudlogin.Config)
		cloud  upstream.Cloud
		scope  string
		host   string
	}{
		"AWS_ROLE_ARN":                           {func(c *cloudlogin.Config) { c.AWSRole = "" }, upstream.CloudAWS, "", ecr},
		"AWS_REGION":                             {func(c *cloudlogin.Config) { c.Registries = []string{"r.example"} }, upstream.CloudAWS, "", "r.example"},
		"token that AWS_WEB_IDENTITY_TOKEN_FILE": {func(c *cloudlogin.Config) { c.AWSTokenFile += "x" }, upstream.CloudAWS, "", ecr},
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": {func(c *cloudlogin.Config) {
			c.AWSTokenFile, c.AWSContainerURL = "", "http://evil.example/keys"
		}, upstream.CloudAWS, "", ecr},
		"LEAT_GITCACHE_GCP_TOKEN_FILE": {func(c *cloudlogin.Config) { c.GCPTokenFile = "" }, upstream.CloudGCP, cloudtest.Provider, gar},
		"AZURE_CLIENT_ID":              {func(c *cloudlogin.Config) { c.AzureClient = "" }, upstream.CloudAzure, "", acr},
		"AZURE_TENANT_ID":              {func(c *cloudlogin.Config) { c.AzureTenant = "" }, upstream.CloudAzure, "", acr},
		"AZURE_FEDERATED_TOKEN_FILE":   {func(c *cloudlogin.Config) { c.AzureTokenFile = "" }, upstream.CloudAzure, "", acr},
	} {
		s := newSubject(t, test.change)
		c := identity(test.cloud)
		c.Scope = test.scope
		_, err := s.login(t.Context(), c, test.host)
		if failed, ok := errors.AsType[*mirror.UpstreamError](err); !ok || !strings.Contains(failed.Message, want) || !strings.HasSuffix(failed.Message, ".") {
			t.Errorf("got %v, want a sentence about %s", err, want)
		}
		if asked := s.clouds.Take(); len(asked) != 0 {
			t.Errorf("%s: got the requests %v, want none", want, asked)
		}
	}
}
