// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
)

var idleTime = flag.Duration("idle.time", time.Minute, "how long BenchmarkIdle leaves the agent alone before it looks at its memory")

// BenchmarkIdle measures an agent that has nothing to do: the size of its program, and its memory
// after a minute of quiet, connected to a hub whose plan is empty.
func BenchmarkIdle(b *testing.B) {
	cp := kubetest.Start(b, func(p *localkube.Params) { p.APIServerOnly = true })
	for b.Loop() {
		agent := startLeat(b, cp, "LEAT_AGENT_REFRESH_INTERVAL=5m", "GOMEMLIMIT=180MiB")
		agent.hub.await(b, "the agent's first report", func() bool { return agent.hub.cluster != nil })
		<-time.After(*idleTime)
		program, err := os.Stat(agent.binary)
		if err != nil {
			b.Fatal(err)
		}
		m := memoryOf(b, agent.process.Process.Pid)
		b.ReportMetric(float64(program.Size())/(1<<20), "program-MiB")
		b.ReportMetric(mebibytes(m.anonymous), "anonymous-MiB")
		b.ReportMetric(mebibytes(m.file), "of-the-program-MiB")
		b.ReportMetric(mebibytes(m.highest), "peak-MiB")
		b.ReportMetric(0, "ns/op")
	}
}

// memory is the resident memory of a process, in bytes.
type memory struct {
	anonymous int // its own
	file      int // pages of its program, which the kernel can drop
	highest   int // most of both together, since its start
}

// memoryOf returns the memory of a process. A process that has ended has none.
func memoryOf(b *testing.B, pid int) (m memory) {
	b.Helper()
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if os.IsNotExist(err) {
		return m
	}
	if err != nil {
		b.Fatal(err)
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		for name, place := range map[string]*int{"RssAnon:": &m.anonymous, "RssFile:": &m.file, "VmHWM:": &m.highest} {
			if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
				_, _ = fmt.Sscan(rest, place)
				*place <<= 10
			}
		}
	}
	return m
}

func mebibytes(bytes int) float64 { return float64(bytes) / (1 << 20) }
