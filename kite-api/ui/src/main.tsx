import "./styles/base.css";
import "./styles/components.css";
import "./styles/shell.css";
import "./styles/pages.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { createBrowserRouter, RouterProvider } from "react-router";
import { queries } from "./api/queries";
import { Language } from "./i18n";
import { applyTheme } from "./lib/theme";
import { Toasts } from "./components/Toasts";
import { App } from "./shell/App";
import { Broken } from "./shell/Broken";
import { takeFailure } from "./shell/failure";

applyTheme();
takeFailure();

// Of one route: which path shows what is said in App. It is this kind of router that
// can ask before a page is left.
const router = createBrowserRouter([
  {
    path: "*",
    errorElement: <Broken />,
    element: (
      <Toasts>
        <App />
      </Toasts>
    ),
  },
]);

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <Language>
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </Language>
    </StrictMode>,
  );
}
