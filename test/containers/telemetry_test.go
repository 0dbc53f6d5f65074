// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package containers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
)

// observers are the services of the profile observe that run here. The fourth, dashboards, has no
// image: Grafana's page is not built from Go modules.
var observers = []string{"collector", "traces", "metrics"}

// The ports that people open on this machine.
const (
	tracesURL  = "http://127.0.0.1:16686"
	metricsURL = "http://127.0.0.1:9090"
)

// agentMetricsURL is where the agent is scraped. It runs on the network of this machine.
const agentMetricsURL = "http://127.0.0.1:8703/metrics"

// checkTrace requires that a push is one trace, from the webhook to the cluster, and a request of a
// person another one, from the front to the cluster.
func (c *cluster) checkTrace(t *testing.T) {
	commit := c.repo.Commit(t, "main", map[string]string{"deploy/shop.yaml": configMap("traced")})
	c.report(t, c.webhookSecret(t))
	c.arrives(t, "traced")
	c.followCommit(t, commit)
	c.answers(t, http.Header{"Authorization": {"Bearer " + c.leat(t, "token")}})
	for operation, want := range map[string][]string{
		"webhook.receive":          {"gitcache", "distributor", "agent"},
		"GET /clusters/{cluster}/": {"tunnel", "agent"},
	} {
		await.Success(t, "the trace of "+operation+" across "+strings.Join(want, ", "), func(ctx context.Context) error {
			var found struct {
				Data []struct {
					Processes map[string]struct{ ServiceName string }
				}
			}
			query := url.Values{"service": {want[0]}, "operation": {operation}, "limit": {"100"}}
			if err := ask(ctx, tracesURL+"/api/traces?"+query.Encode(), &found); err != nil {
				return err
			}
			var seen []map[string]bool
			for _, trace := range found.Data {
				services := map[string]bool{}
				for _, p := range trace.Processes {
					services[p.ServiceName] = true
				}
				if !slices.ContainsFunc(want, func(service string) bool { return !services[service] }) {
					return nil
				}
				seen = append(seen, services)
			}
			return fmt.Errorf("got traces of %v", seen)
		})
	}
}

// followCommit requires that the hub names the trace of a commit that has arrived, and that this one trace has each step, from
// the webhook to the cluster, in order.
func (c *cluster) followCommit(t *testing.T, commit string) {
	t.Helper()
	var revision struct {
		Commits                         []string
		TraceID, TraceURL, FetchBeganAt string
	}
	await.Success(t, "a revision with a trace", func(context.Context) error {
		out := c.leat(t, "trace", "service/shop@berlin", "-o", "json")
		if err := json.Unmarshal([]byte(out), &revision); err != nil || !slices.Contains(revision.Commits, commit) || revision.TraceID == "" || revision.FetchBeganAt == "" {
			return errors.Join(errors.New("got "+out), err)
		}
		return nil
	})
	if want := tracesURL + "/trace/" + revision.TraceID; revision.TraceURL != want {
		t.Errorf("got a trace at %s, want %s", revision.TraceURL, want)
	}
	await.Success(t, "trace "+revision.TraceID+" with every step", func(ctx context.Context) error {
		var found struct {
			Data []struct {
				Spans []struct {
					OperationName, ProcessID string
					StartTime                int64
				}
				Processes map[string]struct{ ServiceName string }
			}
		}
		if err := ask(ctx, tracesURL+"/api/traces/"+revision.TraceID, &found); err != nil {
			return err
		}
		var last int64
		for _, want := range []string{"gitcache webhook.receive", "gitcache mirror.fetch", "distributor plan.compute", "agent service.apply"} {
			begun := int64(math.MaxInt64)
			for _, trace := range found.Data {
				for _, span := range trace.Spans {
					if trace.Processes[span.ProcessID].ServiceName+" "+span.OperationName == want {
						begun = min(begun, span.StartTime)
					}
				}
			}
			if begun == math.MaxInt64 || begun < last {
				return fmt.Errorf("%s: got %d after %d", want, begun, last)
			}
			last = begun
		}
		return nil
	})
}

// checkMetrics requires that Prometheus scrapes every service, takes the queries of the dashboards and the expressions of
// the rules, and has each metric of the hub that they name. This Prometheus scrapes no agent, so the agent itself is asked
// for those of agents.
func (c *cluster) checkMetrics(t *testing.T) {
	want := map[string]string{"collector:8888": "up", "traces:8888": "up"}
	for _, service := range c.engine.services {
		if kind, _, isReplica := strings.Cut(service, "-"); isReplica && slices.Contains(ours, kind) {
			want[service+":8790"] = "up"
		}
	}
	await.Success(t, "a scrape of each service", func(ctx context.Context) error {
		var targets struct {
			Data struct {
				ActiveTargets []struct {
					Labels            struct{ Instance string }
					Health, LastError string
				}
			}
		}
		if err := ask(ctx, metricsURL+"/api/v1/targets", &targets); err != nil {
			return err
		}
		got := map[string]string{}
		for _, target := range targets.Data.ActiveTargets {
			got[target.Labels.Instance] = target.Health + target.LastError
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("got %v, want %v", got, want)
		}
		return nil
	})
	// The hub refuses a request without a token, so that its metric exists, too.
	c.call(t, http.MethodGet, "/clusters/berlin/api", nil, "")
	for _, query := range slices.Concat(dashboardQueries(t), ruleExpressions(t)) {
		if err := ask(t.Context(), metricsURL+"/api/v1/query?"+url.Values{"query": {query}}.Encode(), new(any)); err != nil {
			t.Error(err)
		}
		for _, metric := range hubMetric.FindAllString(labels.ReplaceAllString(query, ""), -1) {
			if withoutEvent[metric] != "" {
				continue
			}
			if ofAgent.MatchString(metric) {
				awaitOfAgent(t, metric)
				continue
			}
			await.Success(t, "a scrape of "+metric, func(ctx context.Context) error {
				var found struct{ Data []any }
				err := ask(ctx, metricsURL+"/api/v1/series?"+url.Values{"match[]": {metric}}.Encode(), &found)
				if err == nil && len(found.Data) == 0 {
					err = errors.New("no service has it")
				}
				return err
			})
		}
	}
}

// awaitOfAgent waits until the agent has a metric.
func awaitOfAgent(t *testing.T, metric string) {
	t.Helper()
	await.Success(t, "the agent's "+metric, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, agentMetricsURL, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		scraped, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(scraped), "\n"+metric+"{") {
			err = errors.New("the agent does not have it")
		}
		return err
	})
}

var (
	// ofAgent are the metrics of agents.
	ofAgent = regexp.MustCompile(`^leat_(bundle_download|reconcile|render|uplink)_`)

	hubMetric = regexp.MustCompile(`\bleat_[a-z_]+`)
	// labels are the parts of a query that name labels.
	labels = regexp.MustCompile(`\{[^}]*\}|\b(by|ignoring|on) \([^)]*\)`)
)

// withoutEvent are metrics that begin with an event which does not happen here, by that event.
var withoutEvent = map[string]string{
	"leat_cluster_requests_bucket":   "the end of ten minutes, for which what a cluster asks is added up",
	"leat_cluster_sent_bytes_bucket": "the end of ten minutes, for which what a cluster is sent is added up",
	"leat_signin_attempts_total":     "a person's sign-in with an identity provider, by the provider's name",
}

// ruleExpressions returns the expressions of recordings and alerts, as this Prometheus has loaded them.
func ruleExpressions(t *testing.T) []string {
	t.Helper()
	var loaded struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Query string }
			}
		}
	}
	if err := ask(t.Context(), metricsURL+"/api/v1/rules", &loaded); err != nil {
		t.Fatal(err)
	}
	var expressions []string
	for _, group := range loaded.Data.Groups {
		for _, rule := range group.Rules {
			expressions = append(expressions, rule.Query)
		}
	}
	if len(expressions) == 0 {
		t.Error("no rules are loaded")
	}
	return expressions
}

// dashboardQueries returns the queries of the dashboards' panels, as Grafana sends them for all replicas.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(top, "deploy", "dashboards", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d dashboards, %v", len(paths), err)
	}
	var queries []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		before := len(queries)
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				queries = append(queries, strings.NewReplacer("$instance", ".*", "$__rate_interval", "1m").Replace(target.Expr))
			}
		}
		if len(queries) == before {
			t.Errorf("%s has no queries", path)
		}
	}
	return queries
}

// ask reads the JSON of a page.
func ask(ctx context.Context, page string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", page, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// checkSilence freezes what carries telemetry, and delivers without it.
func (c *cluster) checkSilence(t *testing.T) {
	var frozen []string
	for _, service := range observers {
		frozen = append(frozen, container(service))
	}
	c.engine.ask(t, append([]string{"pause"}, frozen...)...)
	defer c.engine.ask(t, append([]string{"unpause"}, frozen...)...)
	c.repo.Commit(t, "main", map[string]string{"deploy/shop.yaml": configMap("silent")})
	c.report(t, c.webhookSecret(t))
	c.arrives(t, "silent")
	c.answers(t, http.Header{"Authorization": {"Bearer " + c.leat(t, "token")}})
}
