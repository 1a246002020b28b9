package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn/mcp"
)

// serve runs the shop: an MCP server with the official SDK. Its tool asks for an address before it ships. It logs
// what it does in a file.
func serve(ctx context.Context) error {
	s := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	type order struct {
		Order int `json:"order"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "ship", Description: "Ships an order."}, func(_ context.Context, req *sdk.CallToolRequest, in order) (*sdk.CallToolResult, any, error) {
		key := req.Params.Meta[mcp.MetaIdempotencyKey]
		if req.Params.RequestState == "" {
			note("packed", key)
			return &sdk.CallToolResult{RequestState: fmt.Sprintf("order %d is packed", in.Order), InputRequests: sdk.InputRequestMap{
				"address": &sdk.ElicitParams{Mode: "form", Message: "Where to?", RequestedSchema: json.RawMessage(
					`{"type":"object","properties":{"street":{"type":"string"}},"required":["street"]}`)}}}, nil, nil
		}
		address, _ := req.Params.InputResponses["address"].(*sdk.ElicitResult)
		note("shipped", key)
		if _, err := os.Stat("slow"); err == nil {
			time.Sleep(time.Minute)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{
			Text: fmt.Sprintf("%s and on its way to %v", req.Params.RequestState, address.Content["street"])}}}, nil, nil
	})
	return s.Run(ctx, &sdk.StdioTransport{})
}

// note appends a line to the file shop.log.
func note(what string, key any) {
	f := must(os.OpenFile("shop.log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
	defer f.Close()
	must(fmt.Fprintln(f, what, key))
}
