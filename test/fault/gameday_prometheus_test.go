// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
)

const (
	// haste is by what all durations of the rules are divided: an alert that waits for ten minutes waits
	// for twenty seconds.
	haste = 30
	// scrapes is the time between two scrapes, and between two looks at the rules. The shortest window of
	// the rules, five minutes, has five of them then.
	scrapes = 2 * time.Second
)

// prometheus is a real Prometheus that scrapes a hub, with the rules of deploy/prometheus in haste.
type prometheus struct{ url string }

func startPrometheus(t *testing.T, targets []*process) *prometheus {
	t.Helper()
	binary, folder := program.Build(t, "prometheus"), t.TempDir()
	rules, err := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(binary), "hurry"), strconv.Itoa(haste), "../../deploy/prometheus/rules.yaml").Output()
	if err != nil {
		t.Fatalf("divide the durations of the rules: %v", err)
	}
	var addresses []string
	for _, target := range targets {
		addresses = append(addresses, strconv.Quote(target.internal))
	}
	config := fmt.Sprintf("global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}\nrule_files: [rules.yaml]\n"+
		"scrape_configs: [{job_name: leat, static_configs: [{targets: [%[2]s]}]}]\n", scrapes, strings.Join(addresses, ", "))
	for name, content := range map[string][]byte{"rules.yaml": rules, "prometheus.yaml": []byte(config)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := loopback.Addr(t)
	p := &prometheus{url: "http://" + address}
	program.Start(t, exec.Command(binary, "--config.file="+filepath.Join(folder, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address, "--enable-feature=exemplar-storage")).Await(t, func() bool {
		_, err := fetch(t.Context(), http.DefaultClient, p.url+"/-/ready", "")
		return err == nil
	})
	await.Poll(t, "Prometheus to scrape all targets", pause, func() (bool, string) {
		var found struct {
			Data struct {
				Targets []struct {
					Health string `json:"health"`
				} `json:"activeTargets"`
			} `json:"data"`
		}
		text, up := p.ask(t, "/api/v1/targets", &found), 0
		for _, target := range found.Data.Targets {
			if target.Health == "up" {
				up++
			}
		}
		return up == len(targets), text
	})
	return p
}

// ask reads an answer of the API, and returns its text.
func (p *prometheus) ask(t *testing.T, path string, into any) string {
	t.Helper()
	body, err := fetch(t.Context(), http.DefaultClient, p.url+path, "")
	if err != nil {
		return err.Error()
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("read the answer of Prometheus: %v", err)
	}
	return body
}

// firing is an alert that fires.
type firing struct {
	State       string            `json:"state"`
	ActiveAt    time.Time         `json:"activeAt"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// alerts returns the alerts that fire.
func (p *prometheus) alerts(t *testing.T) []firing {
	t.Helper()
	var found struct {
		Data struct {
			Alerts []firing `json:"alerts"`
		} `json:"data"`
	}
	p.ask(t, "/api/v1/alerts", &found)
	return slices.DeleteFunc(found.Data.Alerts, func(f firing) bool { return f.State != "firing" })
}

// awaitFiring waits until the alert fires, and returns it.
func (p *prometheus) awaitFiring(t *testing.T, name string) (found firing) {
	t.Helper()
	await.Poll(t, name+" to fire", pause, func() (bool, string) {
		all := p.alerts(t)
		i := slices.IndexFunc(all, func(f firing) bool { return f.Labels["alertname"] == name })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0, fmt.Sprint(all)
	})
	return found
}

// objective begins the names of the alerts about the share of deliveries that fail. They look back for days, so a disk that
// was full keeps them for longer than the game day lasts.
const objective = "LeatDeliveriesMissObjective"

// awaitQuiet waits until no alert fires but those of the objective.
func (p *prometheus) awaitQuiet(t *testing.T) {
	t.Helper()
	await.Poll(t, "all alerts to end", pause, func() (bool, string) {
		all := slices.DeleteFunc(p.alerts(t), func(f firing) bool { return strings.HasPrefix(f.Labels["alertname"], objective) })
		return len(all) == 0, fmt.Sprint(all)
	})
}

// lasts returns for how long the condition of the alert has to hold, as it is shipped.
func (p *prometheus) lasts(t *testing.T, name string) time.Duration {
	t.Helper()
	var found struct {
		Data struct {
			Groups []struct {
				Rules []struct {
					Name     string  `json:"name"`
					Duration float64 `json:"duration"`
				} `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	p.ask(t, "/api/v1/rules", &found)
	for _, group := range found.Data.Groups {
		for _, rule := range group.Rules {
			if rule.Name == name {
				return time.Duration(rule.Duration * haste * float64(time.Second))
			}
		}
	}
	t.Fatalf("no rule is called %s", name)
	return 0
}

// awaitExemplar waits until the durations of deliveries have an exemplar of that trace.
func (p *prometheus) awaitExemplar(t *testing.T, trace string) {
	t.Helper()
	query := url.Values{
		"query": {"leat_delivery_duration_seconds_bucket"},
		"start": {time.Now().Add(-time.Hour).Format(time.RFC3339)}, "end": {time.Now().Add(time.Hour).Format(time.RFC3339)},
	}
	await.Poll(t, "an exemplar of the trace "+trace, pause, func() (bool, string) {
		var found struct {
			Data []struct {
				Exemplars []struct {
					Labels map[string]string `json:"labels"`
				} `json:"exemplars"`
			} `json:"data"`
		}
		text := p.ask(t, "/api/v1/query_exemplars?"+query.Encode(), &found)
		for _, series := range found.Data {
			for _, exemplar := range series.Exemplars {
				if exemplar.Labels["trace_id"] == trace {
					return true, ""
				}
			}
		}
		return false, text
	})
}
