// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// Events is `leat events`.
func Events(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := onService(s, &cobra.Command{
		Use:   "events service/NAME",
		Short: "Follow what a service's agent does and sees",
		Long: `Print what the agent of a service's cluster does and sees of the service, as it happens, until interrupted. What happened
before is told by leat history and leat get. As JSON that is one event a line. The role viewer in the cluster
suffices.`,
		Example: `  leat events service/shop
  leat events service/shop -o json | jq -r .message`,
	}, func(ctx context.Context, c *client.Client, name string) error {
		return followEvents(ctx, s, c, name, format)
	})
	cmd.Flags().VarP(&format, "output", "o", "how to print them")
	return cmd
}

func followEvents(ctx context.Context, s *session.Session, c *client.Client, name string, format show.Format) error {
	agent, planned, err := agentOf(ctx, s, c, name)
	if err != nil {
		return err
	}
	stream, err := agent.WatchEvents(ctx, &agentv1.WatchEventsRequest{Service: planned})
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		if err := printEvent(s, format, stream.Msg()); err != nil {
			return err
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) { // the user ends it by interrupting it
		return nil
	}
	return stream.Err()
}

func printEvent(s *session.Session, format show.Format, event *agentv1.WatchEventsResponse) error {
	switch format {
	case show.JSON:
		return document.WriteJSONItem(s.Out, event)
	case show.YAML:
		return document.WriteYAMLItem(s.Out, event)
	case show.Table:
	}
	_, err := fmt.Fprintln(s.Out, show.Event(s.Style(s.Out), event))
	return err
}
