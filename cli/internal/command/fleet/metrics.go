// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
)

// longestMetrics is the longest time that agents answer about.
const longestMetrics = 31 * 24 * time.Hour

// Metrics is `leat metrics`.
func Metrics(s *session.Session) *cobra.Command {
	format, since := show.Table, time.Hour
	cmd := onService(s, &cobra.Command{
		Use:   "metrics service/NAME",
		Short: "Show what the pods of a service use, now and over time",
		Long: `Show the CPU and memory of a service's pods, the last figures and a line of the time before. The cluster's agent asks
the Prometheus that spec.agent.metrics of the cluster names, so it has to be connected. The role viewer in the cluster
suffices.`,
		Example: `  leat metrics service/shop
  leat metrics service/shop --since 24h -o json | jq -r '.items[] | "\(.metric) \(.pod) \([.points[].value] | max)"'`,
	}, func(ctx context.Context, c *client.Client, name string) error {
		if since <= 0 || since > longestMetrics {
			return errors.New("--since: want more than nothing, and at most 744h")
		}
		return printMetrics(ctx, s, c, name, since, format)
	})
	cmd.Flags().VarP(&format, "output", "o", "how to print it")
	cmd.Flags().DurationVar(&since, "since", since, "how far back, such as 24h")
	return cmd
}

func printMetrics(ctx context.Context, s *session.Session, c *client.Client, name string, since time.Duration, format show.Format) error {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	agent, planned, err := agentOf(ctx, s, c, name)
	if err != nil {
		return err
	}
	end := time.Now()
	var all []*agentv1.MetricSeries
	var leftOut int32
	for _, metric := range []agentv1.Metric{agentv1.Metric_METRIC_CPU, agentv1.Metric_METRIC_MEMORY} {
		answer, err := agent.QueryMetrics(ctx, &agentv1.QueryMetricsRequest{
			Service: planned, Metric: metric, Start: timestamppb.New(end.Add(-since)), End: timestamppb.New(end),
		})
		if err != nil {
			return err
		}
		for _, series := range answer.GetSeries() {
			series.Metric = metric
			all = append(all, series)
		}
		leftOut = max(leftOut, answer.GetLeftOut())
	}
	if len(all) == 0 && format == show.Table {
		_, err := fmt.Fprintf(s.Err, "The cluster's Prometheus has no figures of the pods of service/%s in this time.\n", name)
		return err
	}
	if err := show.Metrics(s.Out, format, s.Style(s.Out), all); err != nil {
		return err
	}
	if leftOut > 0 {
		_, err = fmt.Fprintf(s.Err, "%d more pods are left out; these have the largest figures.\n", leftOut)
	}
	return err
}
