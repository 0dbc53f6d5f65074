// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor"
)

func allowLocal(c *distributor.Config) { c.AllowLocalAgents = true }

// TestPipeline exchanges the token of a job, applies documents in the project of the job's repository,
// is refused elsewhere, and looks for what it did on record.
func TestPipeline(t *testing.T) {
	t.Parallel()
	c := &crowd{hub: startHub(t, allowLocal)}
	c.admin = c.fleet(t, adminToken)
	ci := startCI(t)
	c.apply(t, append(projectDocuments("shop"), clusterDocument("one"),
		trustRuleDocument("ci", requiring(ci.url, "repository_owner", "acme")),
		bindingOf("shop-ci", &fleetv1.AccessBindingSpec{
			Users: []string{"ci:acme/shop"}, Role: typev1.AccessRole_ACCESS_ROLE_EDITOR, Projects: &fleetv1.ProjectSelection{Names: []string{"shop"}},
		}))...)
	token := c.obtain(t, ci.job(t, "acme/shop", nil))
	job := c.fleet(t, token)
	info, err := job.GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{})
	if err != nil || info.GetSubject() != "user:ci:acme/shop" {
		t.Fatalf("got %v, %v, want the user ci:acme/shop", info, err)
	}
	if _, err := job.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{in("shop", repositoryDocument("web"))}}); err != nil {
		t.Fatalf("in its project: got %v, want it done", err)
	}
	_, err = job.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{repositoryDocument("web")}})
	wantReason(t, err, "ACCESS_DENIED")
	_, err = fleetcalls.Get[*fleetv1.Cluster](t.Context(), job, "one")
	wantReason(t, err, "NOT_FOUND")
	_, err = job.CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
	wantReason(t, err, "ACCESS_DENIED")
	other := c.fleet(t, c.obtain(t, ci.job(t, "acme/other", map[string]any{"run_number": "7"})))
	_, err = other.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{in("shop", repositoryDocument("web"))}})
	wantReason(t, err, "ACCESS_DENIED")

	var got []string
	for _, r := range auditOf(t, c.admin, &fleetv1.ListAuditRecordsRequest{Claims: []string{"repository=acme/shop", "run_number=42"}}) {
		got = append(got, strings.Join([]string{r.GetSubject(), r.GetVerb(), r.GetKind(), r.GetName(), r.GetOutcome(), r.GetClaims()["iss"], r.GetClaims()["sub"], r.GetClaims()["run_id"]}, " "))
	}
	rest := " " + ci.url + " repo:acme/shop:ref:refs/heads/main 9876543210"
	want := []string{
		"user:ci:acme/shop create AccessToken  ACCESS_DENIED" + rest, "user:ci:acme/shop apply Repository web ACCESS_DENIED" + rest,
		"user:ci:acme/shop create Repository shop/web OK" + rest, "user:ci:acme/shop create AccessToken distributor OK" + rest,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("records of the job (-want +got):\n%s", diff)
	}
	if all := auditOf(t, c.admin, &fleetv1.ListAuditRecordsRequest{Claims: []string{"run_number=4"}}); len(all) > 0 {
		t.Errorf("a part of a claim selects %d records, want none", len(all))
	}

	// The tunnel learns the run from the token, and asks the hub what the job may do.
	id := c.verified(t, token)
	if id.Claims["run_number"] != "42" || c.check(t, id, "one").GetAllowed() {
		t.Errorf("got claims %v, want the run, and no way to a cluster of another project", id.Claims)
	}
	c.bind(t, "ci-one", &fleetv1.AccessBindingSpec{Users: []string{"ci:acme/shop"}, Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Clusters: named("one")})
	if res := c.check(t, id, "one"); !res.GetAllowed() || res.GetUser() != "ci:acme/shop" {
		t.Errorf("got %v, want the job to reach a cluster that it is bound to", res)
	}
	_, err = c.fleet(t, c.obtain(t, ci.job(t, "acme/shop", nil), "audience", "tunnel")).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{})
	wantInvalid(t, err, "a token for the tunnel at the distributor")
}

// TestExchangedTokensEnd ends the access tokens of a rule by changing it and by deleting it, and keeps
// them when only its labels change. The issuer is away meanwhile.
func TestExchangedTokensEnd(t *testing.T) {
	t.Parallel()
	h := startHub(t, allowLocal)
	ci := startCI(t)
	admin := h.fleet(t, adminToken)
	rule := trustRuleDocument("ci", requiring(ci.url, "repository", "acme/shop"))
	h.apply(t, rule)
	whoami := func(token string) error {
		_, err := h.fleet(t, token).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{})
		return err
	}
	first := h.obtain(t, ci.job(t, "acme/shop", nil))
	ci.down.Store(true)
	second := h.obtain(t, ci.job(t, "acme/shop", nil)) // by the keys that the hub has
	rule.GetTrustRule().Metadata.Labels = map[string]string{"team": "shop"}
	h.apply(t, rule)
	if err := whoami(first); err != nil {
		t.Errorf("after new labels: got %v, want the token accepted", err)
	}
	rule.GetTrustRule().Spec.Require[0].Values = []string{"acme/shop", "acme/web"}
	h.apply(t, rule)
	for _, token := range []string{first, second} {
		wantInvalid(t, whoami(token), "after a change of the rule")
	}
	third := h.obtain(t, ci.job(t, "acme/shop", nil))
	if err := whoami(third); err != nil {
		t.Errorf("by the changed rule: got %v", err)
	}
	if err := fleetcalls.Delete[*fleetv1.TrustRule](t.Context(), admin, "ci"); err != nil {
		t.Fatal(err)
	}
	wantInvalid(t, whoami(third), "after the rule was deleted")
	h.apply(t, rule)
	wantInvalid(t, whoami(third), "by another rule of the name")
}

// TestSecForgedWorkloadTokens presents tokens that must be refused, each with another mistake or
// trick, and the answer to it.
func TestSecForgedWorkloadTokens(t *testing.T) {
	t.Parallel()
	h := startHub(t, allowLocal)
	ci, stranger, unreachable := startCI(t), startCI(t), startCI(t)
	unreachable.down.Store(true)
	spec := requiring(ci.url, "repository", "acme/shop")
	spec.Expression, spec.Lifetime = "self.ref == 'refs/heads/main' || self.ref.startsWith('refs/tags/')", durationpb.New(time.Minute)
	h.apply(t, trustRuleDocument("ci", spec), trustRuleDocument("away", requiring(unreachable.url, "repository", "acme/shop")))
	now := time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	public, err := x509.MarshalPKIXPublicKey(ci.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	shared := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	good := ci.job(t, "acme/shop", nil)
	pieces := strings.Split(good, ".")
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	own := jose.JSONWebKey{Key: small.Public(), KeyID: ci.kid, Algorithm: "RS256"}
	embedding, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: small},
		(&jose.SignerOptions{}).WithHeader("kid", ci.kid).WithHeader("jwk", own).WithHeader("jku", stranger.url+"/keys"))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(ci.claims("acme/shop", nil))
	if err != nil {
		t.Fatal(err)
	}
	object, err := embedding.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	const nobody = "the hub has no trust rule for tokens of this issuer, key and audience"
	for name, tc := range map[string]struct{ token, want string }{
		"nothing that is a token":        {"guessed", "not a signed JWT"},
		"alg none":                       {part(map[string]any{"alg": "none", "kid": ci.kid}) + "." + part(ci.claims("acme/shop", nil)) + ".", "not a signed JWT"},
		"alg none and a signature":       {part(map[string]any{"alg": "none", "kid": ci.kid}) + "." + pieces[1] + "." + pieces[2], "not a signed JWT"},
		"HS256 with the public key":      {signed(t, jose.SigningKey{Algorithm: jose.HS256, Key: shared}, ci.kid, ci.claims("acme/shop", nil)), "not a signed JWT"},
		"other claims below a signature": {pieces[0] + "." + part(ci.claims("acme/shop", map[string]any{"run_number": "1"})) + "." + pieces[2], nobody},
		"another key by the same id":     {signed(t, jose.SigningKey{Algorithm: jose.RS256, Key: small}, ci.kid, ci.claims("acme/shop", nil)), nobody},
		"a key that it brings along":     {embedded, nobody},
		"another algorithm of the key":   {signed(t, jose.SigningKey{Algorithm: jose.PS256, Key: ci.key}, ci.kid, ci.claims("acme/shop", nil)), nobody},
		"an unknown key":                 {signed(t, jose.SigningKey{Algorithm: jose.RS256, Key: ci.key}, "unknown", ci.claims("acme/shop", nil)), nobody},
		"no key id":                      {signed(t, jose.SigningKey{Algorithm: jose.RS256, Key: ci.key}, "", ci.claims("acme/shop", nil)), "not a signed JWT"},
		"a key id like a path":           {signed(t, jose.SigningKey{Algorithm: jose.RS256, Key: ci.key}, "../../keys\x00", ci.claims("acme/shop", nil)), nobody},
		"an issuer that nobody trusts":   {stranger.job(t, "acme/shop", nil), nobody},
		"a stranger as the issuer":       {stranger.job(t, "acme/shop", map[string]any{"iss": ci.url}), nobody},
		"another spelling of the issuer": {ci.job(t, "acme/shop", map[string]any{"iss": ci.url + "/"}), nobody},
		"two issuers":                    {ci.job(t, "acme/shop", map[string]any{"iss": []string{ci.url, "x"}}), "not a signed JWT"},
		"another audience":               {ci.job(t, "acme/shop", map[string]any{"aud": "sts.example.com"}), nobody},
		"no audience":                    {ci.job(t, "acme/shop", map[string]any{"aud": nil}), nobody},
		"a part of the audience":         {ci.job(t, "acme/shop", map[string]any{"aud": ciAudience + ".evil.example"}), nobody},
		"expired":                        {ci.job(t, "acme/shop", map[string]any{"iat": at(-time.Hour), "nbf": at(-time.Hour), "exp": at(-time.Minute)}), "has expired"},
		"endless":                        {ci.job(t, "acme/shop", map[string]any{"exp": nil}), "no exp"},
		"ends in the far future":         {ci.job(t, "acme/shop", map[string]any{"exp": at(100 * 365 * 24 * time.Hour)}), "lives longer than 24 hours"},
		"ends after all time":            {ci.job(t, "acme/shop", map[string]any{"exp": 1e300}), nobody},
		"without a beginning":            {ci.job(t, "acme/shop", map[string]any{"iat": nil}), "no iat"},
		"not valid yet":                  {ci.job(t, "acme/shop", map[string]any{"nbf": at(10 * time.Minute)}), "not valid yet"},
		"issued in the future":           {ci.job(t, "acme/shop", map[string]any{"iat": at(10 * time.Minute), "exp": at(time.Hour)}), "not valid yet"},
		"no subject":                     {ci.job(t, "acme/shop", map[string]any{"sub": nil}), "no sub"},
		"another repository":             {ci.job(t, "evil/shop", nil), "does not accept the token's claim repository, which is evil/shop"},
		"a claim of another type":        {ci.job(t, "acme/shop", map[string]any{"repository": map[string]any{"acme/shop": true}}), "not one text"},
		"without the claim":              {ci.job(t, "acme/shop", map[string]any{"repository": nil}), "requires the claim repository"},
		"another branch":                 {ci.job(t, "acme/shop", map[string]any{"ref": "refs/heads/evil"}), "its expression is not true"},
		"no branch":                      {ci.job(t, "acme/shop", map[string]any{"ref": nil}), "reads a claim that the token does not have"},
		"an issuer that is away":         {unreachable.job(t, "acme/shop", nil), "cannot be read now"},
		"17 KiB":                         {ci.job(t, "acme/shop", map[string]any{"more": strings.Repeat("x", 17<<10)}), "at most 16384"},
	} {
		got := h.exchange(t, tc.token)
		status, code := http.StatusBadRequest, "invalid_request"
		if name == "an issuer that is away" {
			status, code = http.StatusServiceUnavailable, "temporarily_unavailable"
		}
		if got.AccessToken != "" || got.Status != status || got.Error != code || !strings.Contains(got.Description, tc.want) {
			t.Errorf("%s: got %+v, want %d %s with %q", name, got, status, code, tc.want)
		}
	}
	if got := h.post(t, "application/x-www-form-urlencoded", "subject_token="+strings.Repeat("x", 10<<20)); got.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("10 MiB: got %+v, want them refused", got)
	}
	// RFC 8693 lets a token be exchanged again until it ends: a job may run several steps.
	for range 2 {
		if got := h.exchange(t, good); got.Status != http.StatusOK || got.ExpiresIn < 1 || got.ExpiresIn > 60 {
			t.Errorf("a good token: got %+v, want a minute", got)
		}
	}
}

// TestSecWorkloadClaims has claims that are to become other names than the job's own, or other lines in
// the record.
func TestSecWorkloadClaims(t *testing.T) {
	t.Parallel()
	h := startHub(t, allowLocal)
	ci := startCI(t)
	spec := requiring(ci.url, "repository_owner", "acme")
	spec.User, spec.Record = "{repository}@{environment}", []string{"environment", "note", "huge", "iss"}
	h.apply(t, trustRuleDocument("ci", spec))
	for name, tc := range map[string]struct{ repository, environment, want string }{
		"plain":                    {"acme/shop", "prod", "user:ci:acme/shop@prod"},
		"a separator in the first": {"acme/shop@x", "prod", "separates it from"},
		"a separator in the last":  {"acme/shop", "x@prod", "user:ci:acme/shop@x@prod"},
		"a line break":             {"acme/shop", "prod\nuser:admin", "make no name"},
		"a space":                  {"acme/shop", "prod x", "make no name"},
		"another alphabet":         {"acme/shop", "prоd", "make no name"},
		"a control character":      {"acme/shop", "prod\x1b[2K", "make no name"},
		"nothing":                  {"acme/shop", "", "does not have as a text"},
		"too long":                 {"acme/shop", strings.Repeat("x", 250), "make no name"},
		"Kubernetes' own":          {"acme/system:masters", "prod", "user:ci:acme/system:masters@prod"},
	} {
		job := ci.job(t, tc.repository, map[string]any{
			"repository_owner": "acme", "environment": tc.environment, "note": "x\nrepository=evil", "huge": strings.Repeat("h", 300),
		})
		got := h.exchange(t, job)
		if got.Error != "" {
			if !strings.Contains(got.Description, tc.want) {
				t.Errorf("%s: got %+v, want it refused for %q", name, got, tc.want)
			}
			continue
		}
		info, err := h.fleet(t, got.AccessToken).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{})
		if err != nil || info.GetSubject() != tc.want {
			t.Errorf("%s: got %v, %v, want %s", name, info, err, tc.want)
		}
	}
	admin := h.fleet(t, adminToken)
	if all := auditOf(t, admin, &fleetv1.ListAuditRecordsRequest{Claims: []string{"repository=evil"}}); len(all) > 0 {
		t.Errorf("a claim with a line break made another claim: %v", all)
	}
	for _, r := range auditOf(t, admin, &fleetv1.ListAuditRecordsRequest{Claims: []string{"environment=prod"}}) {
		if want := map[string]string{"iss": ci.url, "sub": r.GetClaims()["sub"], "environment": "prod"}; !gocmp.Equal(want, r.GetClaims()) {
			t.Errorf("got claims %v on record, want %v", r.GetClaims(), want)
		}
	}
}

// TestSeveralTrustRules has the caller choose among the rules that accept a token, and learn about a
// rule only by its name.
func TestSeveralTrustRules(t *testing.T) {
	t.Parallel()
	h := startHub(t, allowLocal)
	ci := startCI(t)
	h.apply(t, trustRuleDocument("all", requiring(ci.url, "repository_owner", "acme")), trustRuleDocument("shop", requiring(ci.url, "repository", "acme/shop")))
	job := ci.job(t, "acme/shop", nil)
	if got := h.exchange(t, job); got.Error != "invalid_request" || !strings.Contains(got.Description, "trust_rule") {
		t.Errorf("without a name: got %+v, want to be asked for one", got)
	}
	for _, rule := range []string{"all", "shop"} {
		info, err := h.fleet(t, h.obtain(t, job, "trust_rule", rule)).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{})
		if want := "user:" + rule + ":acme/shop"; err != nil || info.GetSubject() != want {
			t.Errorf("got %v, %v, want %s", info, err, want)
		}
	}
	foreign := ci.job(t, "evil/x", nil)
	for rule, want := range map[string]string{
		"": "none accepts the token", "shop": "claim repository, which is evil/x", "none": "no trust rule 'none'",
	} {
		if got := h.exchange(t, foreign, "trust_rule", rule); got.Error == "" || !strings.Contains(got.Description, want) {
			t.Errorf("rule %q: got %+v, want %q", rule, got, want)
		}
	}
	for name, more := range map[string][]string{
		"unsupported_grant_type": {"grant_type", "client_credentials"}, "invalid_scope": {"scope", "admin"}, "invalid_target": {"audience", "gitcache"},
		"invalid_request": {"subject_token_type", "urn:ietf:params:oauth:token-type:saml2"},
	} {
		if got := h.exchange(t, job, append(more, "trust_rule", "shop")...); got.Status != http.StatusBadRequest || got.Error != name {
			t.Errorf("%v: got %+v, want %s", more, got, name)
		}
	}
	if got := h.post(t, "application/json", "{}"); got.Error != "invalid_request" {
		t.Errorf("JSON: got %+v, want it refused", got)
	}
}

// TestSecTrustRulesGiveNothing has a person who may edit trust rules try to become more by one.
func TestSecTrustRulesGiveNothing(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.apply(t, roleDocument("truster", []string{"*"}, []string{"trustrules"}), clusterDocument("one"))
	secret, _ := c.join(t, "ada")
	admin := typev1.AccessRole_ACCESS_ROLE_ADMIN
	c.bind(t, "ada", &fleetv1.AccessBindingSpec{Users: []string{"ada"}, RoleName: "truster", Hub: true})
	c.bind(t, "ci", &fleetv1.AccessBindingSpec{Users: []string{"ci:acme/shop"}, Role: admin, Clusters: named("one")})
	c.bind(t, "ops", &fleetv1.AccessBindingSpec{Groups: []string{"ops"}, Role: admin, Hub: true})
	with := func(change func(*fleetv1.TrustRuleSpec)) *fleetv1.TrustRuleSpec {
		spec := requiring("https://ci.example", "repository", "acme/shop")
		change(spec)
		return spec
	}
	same := func(*fleetv1.TrustRuleSpec) {}
	for name, document := range map[string]*fleetv1.Document{
		"ACCESS_DENIED users that are bound":  trustRuleDocument("ci", with(same)),
		"ACCESS_DENIED a group that is bound": trustRuleDocument("mine", with(func(s *fleetv1.TrustRuleSpec) { s.Groups = []string{"ops"} })),
		"FIELD_INVALID administrators":        trustRuleDocument("mine", with(func(s *fleetv1.TrustRuleSpec) { s.Groups = []string{"leat:admins"} })),
		"FIELD_INVALID a group of Kubernetes": trustRuleDocument("mine", with(func(s *fleetv1.TrustRuleSpec) { s.Groups = []string{"system:masters"} })),
		"FIELD_INVALID users of Kubernetes":   trustRuleDocument("system", with(same)),
		"FIELD_INVALID users of Leat's":       trustRuleDocument("leat", with(same)),
		"FIELD_INVALID everybody":             trustRuleDocument("mine", with(func(s *fleetv1.TrustRuleSpec) { s.Require = nil })),
		"FIELD_INVALID one user for all":      trustRuleDocument("mine", with(func(s *fleetv1.TrustRuleSpec) { s.User = "job" })),
		"FIELD_INVALID a user that begins":    trustRuleDocument("mine", with(func(s *fleetv1.TrustRuleSpec) { s.User = "{a}{b}" })),
		"FIELD_INVALID the hub's own machine": trustRuleDocument("mine", with(func(s *fleetv1.TrustRuleSpec) { s.Issuer = "http://127.0.0.1:1" })),
		"FIELD_INVALID an expression":         trustRuleDocument("mine", with(func(s *fleetv1.TrustRuleSpec) { s.Expression = "self.(" })),
		"FIELD_INVALID a private key":         trustRuleDocument("mine", with(func(s *fleetv1.TrustRuleSpec) { s.Jwks = `{"keys": [{"kid": "a", "kty": "oct", "k": "c2VjcmV0"}]}` })),
		"FIELD_INVALID a day":                 trustRuleDocument("mine", with(func(s *fleetv1.TrustRuleSpec) { s.Lifetime = durationpb.New(24 * time.Hour) })),
	} {
		_, err := c.fleet(t, secret).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}, DryRun: true})
		want, _, _ := strings.Cut(name, " ")
		if got := strings.TrimPrefix(rpcerr.ReasonOf(err).String(), "REASON_"); got != want {
			t.Errorf("%s: got %s (%v), want %s", name, got, err, want)
		}
	}
	if _, err := c.fleet(t, secret).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{trustRuleDocument("mine", with(same))}}); err != nil {
		t.Errorf("a rule that gives nothing: got %v, want it stored", err)
	}
	// A person who may bind others gives the users of a rule no more than they hold.
	_, err := c.fleet(t, secret).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{
		bindingOf("up", &fleetv1.AccessBindingSpec{Users: []string{"mine:acme/shop"}, Role: admin, Hub: true}),
	}})
	wantReason(t, err, "ACCESS_DENIED")
}

// TestExampleOfPipelines applies the documents that docs/guides/pipelines.md shows, except the
// issuer, and has a job follow the page.
func TestExampleOfPipelines(t *testing.T) {
	t.Parallel()
	const path = "../../examples/pipelines/github.yaml"
	page, err := os.ReadFile("../../docs/guides/pipelines.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+string(example)+"```") {
		t.Error("docs/guides/pipelines.md does not show the example")
	}
	h, ci := startHub(t, allowLocal), startCI(t)
	documents := exampleDocuments(t, path)
	// The command line reads the short names of roles, which JSON does not have.
	documents[2].GetAccessBinding().Spec.Role = typev1.AccessRole_ACCESS_ROLE_EDITOR
	h.apply(t, documents...)
	documents[0].GetTrustRule().Spec.Issuer = ci.url
	h.apply(t, documents...)
	for ref, isAllowed := range map[string]bool{"refs/heads/main": true, "refs/tags/v1": true, "refs/heads/evil": false} {
		got := h.exchange(t, ci.job(t, "acme/shop", map[string]any{"ref": ref}))
		if (got.Status == http.StatusOK) != isAllowed {
			t.Errorf("%s: got %+v", ref, got)
		}
	}
	job := h.fleet(t, h.obtain(t, ci.job(t, "acme/shop", nil)))
	if _, err := job.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{in("shop", repositoryDocument("web"))}}); err != nil {
		t.Errorf("got %v, want it done", err)
	}
	_, err = job.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{repositoryDocument("web")}})
	wantReason(t, err, "ACCESS_DENIED")
}
