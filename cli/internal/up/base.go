// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/cli/internal/up/report"
	"github.com/leatdev/leat/cli/internal/up/statedir"
	"github.com/leatdev/leat/cli/internal/up/supervise"
	"github.com/leatdev/leat/internal/runtime/config"
)

// drainTimeout is short, because a user waits after Ctrl-C.
const drainTimeout = 5 * time.Second

// Params are Run's settings besides a user's options.
type Params struct {
	Options   Options
	Report    report.Reporter
	Command   string                            // absolute path of leat
	LookupEnv func(string) (string, bool)       // as os.LookupEnv; OTEL_ variables are passed on to the services
	LookPath  func(file string) (string, error) // as exec.LookPath
	LogOutput io.Writer                         // also receives the logs if Options.Verbose is set
}

// base is shared by the parts of one run: where they keep their files, what runs them, and where
// they report and log.
type base struct {
	Params

	dir    *statedir.Dir
	group  *supervise.Group
	opened []io.Closer // closed in this order when everything has stopped

	reporting sync.Mutex // a reporter takes one event at a time
}

func (b *base) tell(part, message string) {
	b.report(report.Event{Kind: report.Progress, Part: part, Message: message})
}

func (b *base) report(e report.Event) {
	b.reporting.Lock()
	defer b.reporting.Unlock()
	e.Time = time.Now()
	b.Report(e)
}

// openLog returns a part's log. It is closed when everything has stopped.
func (b *base) openLog(part string) (io.Writer, error) {
	f, err := os.OpenFile(b.dir.Log(part), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	b.opened = append(b.opened, f)
	if b.Options.Verbose {
		return io.MultiWriter(f, b.LogOutput), nil
	}
	return f, nil
}

// configure fills a service's config as its own process would: from its environment, which is env
// and the standard OTEL_ variables of this process. A name in env that the service does not read is
// a bug in this package.
func (b *base) configure(service string, cfg interface{ Bind(*config.Set) }, env map[string]string) error {
	env["LEAT_LOG_FORMAT"] = "text"
	env["LEAT_DRAIN_TIMEOUT"] = drainTimeout.String()
	unused := maps.Clone(env)
	set := config.New(service, func(name string) (string, bool) {
		if strings.HasPrefix(name, "OTEL_") {
			return b.LookupEnv(name)
		}
		delete(unused, name)
		value, ok := env[name]
		return value, ok
	})
	cfg.Bind(set)
	if err := set.Parse(nil); err != nil {
		return fmt.Errorf("configure %s: %w", service, err)
	}
	if len(unused) > 0 {
		return fmt.Errorf("configure %s: it has no setting %s", service, strings.Join(slices.Sorted(maps.Keys(unused)), ", "))
	}
	return nil
}

// agentDir returns the folder of the agent in a cluster.
func (b *base) agentDir(name string) string { return b.dir.Path("agent", name) }
